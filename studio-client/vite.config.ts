import { defineConfig } from "vite";

export default defineConfig({
  build: {
    outDir: "../src/pointglue/studio/static",
    emptyOutDir: true,
    chunkSizeWarningLimit: 2000,
  },
});
