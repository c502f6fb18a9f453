/** What several panels have in common: tools, what is shown, and exports. */

import type { App, Tool } from "../app";
import { button, check, choice, h, row, section } from "../dom";

/** A length that can be read, however small it is. */
export const length = (metres: number) =>
  metres < 0.01 ? `${+(1000 * metres).toPrecision(2)} mm` : `${+metres.toPrecision(2)} m`;
export const mean = (numbers: ArrayLike<number> = []) =>
  Array.from(numbers).reduce((a, b) => a + b, 0) / (numbers.length || 1);
export const percent = (value: number) => `${(100 * value).toFixed(value < 0.095 ? 1 : 0)} %`;

export function tools(app: App, ...names: Tool[]): HTMLElement {
  return h(
    "div",
    { class: "tools" },
    ...names.map((name) =>
      button(name, () => app.setTool(name), { id: `tool ${name}`, active: app.tool === name }),
    ),
  );
}

export function showing(app: App): HTMLElement[] {
  const { settings } = app;
  return [
    h(
      "div",
      { class: "grid" },
      check("Shaded", settings.mesh, (mesh) => app.set({ mesh })),
      check("Wire", settings.wire, (wire) => app.set({ wire })),
      check("Particles", settings.particles, (particles) => app.set({ particles })),
      check("Ellipsoids", settings.ellipsoids, (ellipsoids) => app.set({ ellipsoids })),
      check("Edges", settings.edges, (edges) => app.set({ edges })),
      app.mode === "Play"
        ? check("See through", settings.see, (see) => app.set({ see }))
        : check("See through", settings.clear, (clear) => app.set({ clear })),
    ),
    choice(
      "Colour by",
      settings.color,
      [
        ["plain", "Object"],
        ["stiffness", "Stiffness"],
        ["torsion", "Torsion (edges)"],
        ["group", "Rigid group"],
        ["gap", "Gap of frames"],
        ["weight", "Skin weights"],
      ],
      (color) => app.set({ color }),
    ),
    legend(app),
  ].filter((part): part is HTMLElement => part !== null);
}

function legend(app: App): HTMLElement | null {
  const words: Record<string, [string, string]> = {
    stiffness: ["soft", "stiff"],
    torsion: ["free", "stiff"],
    gap: ["a line", "all round"],
    weight: ["0", "1"],
  };
  const ends = words[app.settings.color];
  if (app.settings.color === "weight" && !app.store.get(app.active, "selected_particles")) {
    return h("p", { class: "note" }, "Each particle has a colour. Select some to see their weights.");
  }
  return ends ? h("div", { class: "legend" }, ends[0], h("i", {}), ends[1]) : null;
}

export function exporting(app: App, name: string, animation: boolean): HTMLElement {
  const ask = (all: boolean) => {
    const path = prompt(
      all ? "Name of the files (.ply, .obj, .glb: one each frame; .npy: one array)" : "Name of the file",
      `${name}_${all ? "animation" : "posed"}.ply`,
    );
    if (path) app.write({ type: "export", object: name, path, animation: all, replace: false });
  };
  return section(
    "Export",
    row(
      button("This pose…", () => ask(false), { id: "Export pose" }),
      animation && button("Animation…", () => ask(true), { id: "Export animation" }),
    ),
  );
}
