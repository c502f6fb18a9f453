import stylistic from "@stylistic/eslint-plugin";
import { defineConfig } from "eslint/config";
import tseslint from "typescript-eslint";

export default defineConfig({ ignores: ["src/messages.ts"] }, tseslint.configs.recommendedTypeChecked, {
  languageOptions: { parserOptions: { projectService: { allowDefaultProject: ["eslint.config.js"] } } },
  plugins: { "@stylistic": stylistic },
  rules: {
    // Lines are as long as in Python; the formatter leaves long texts as they are.
    "@stylistic/max-len": ["error", { code: 110 }],
    // A cast must not claim what the compiler cannot know.
    "@typescript-eslint/no-unsafe-type-assertion": "error",
    eqeqeq: "error",
    "prefer-const": "error",
  },
});
