/** The list of objects, and what the chosen one is and where. */

import type { App } from "../app";
import { button, choice, h, numberField, row, section, vectorField } from "../dom";
import { DEFAULTS, SHAPES, type ObjectState, type SetKind } from "../messages";
import { numberAt, tableAt, vectorAt } from "../tables";
import { exporting, length, showing } from "./shared";

type Shape = (typeof SHAPES)[number];
const SHAPE_OPTIONS: [Shape | "", string][] = [
  ["", "choose…"],
  ...SHAPES.map((shape): [Shape, string] => [shape, shape.charAt(0).toUpperCase() + shape.slice(1)]),
];
const KINDS: [SetKind["kind"], string][] = [
  ["handles", "Mesh with handles"],
  ["particles", "Particles"],
  ["flesh", "Flesh"],
  ["jelly", "Jelly"],
  ["cloth", "Cloth"],
  ["rigid", "Rigid"],
  ["collider", "Obstacle"],
];

export function objectsPanel(app: App): HTMLElement {
  const list = app.objects.map((object) => {
    const active = object.name === app.active;
    const eye = button(
      object.visible ? "Hide" : "Show",
      () => app.send({ type: "set", path: ["objects", object.name, "visible"], value: !object.visible }),
      { id: `eye ${object.name}` },
    );
    eye.addEventListener("click", (event) => event.stopPropagation());
    return h(
      "li",
      {
        class: active ? "active" : "",
        "data-id": `object ${object.name}`,
        click: () => app.choose(object.name),
      },
      h("i", { style: `background:${object.color}` }),
      h("span", { class: "name" }, object.name),
      h("small", {}, KINDS.find(([kind]) => kind === object.kind)?.[1] ?? object.kind),
      eye,
      active && h("div", { class: "counts" }, counts(object)),
    );
  });
  const object = app.object;
  return section(
    "Objects",
    list.length
      ? h("ul", { class: "objects" }, ...list)
      : h("p", { class: "empty" }, "Nothing yet: open a mesh, or add a shape."),
    choice("Add a shape", "", SHAPE_OPTIONS, (shape) => shape && app.send({ type: "add_shape", shape })),
    object &&
      choice("It is", object.kind, KINDS, (kind) =>
        app.send({ type: "set_kind", object: object.name, kind }),
      ),
    object &&
      app.mode === "View" &&
      row(
        button("Rename…", () => {
          const name = prompt("A new name", object.name);
          if (name) app.send({ type: "rename", object: object.name, name });
        }),
        button("Remove", () => app.send({ type: "remove", object: object.name }), { id: "Remove object" }),
      ),
  );
}

function counts(object: ObjectState): string {
  const count = (number: number, what: string) =>
    number ? [`${number.toLocaleString("en")} ${what}${number > 1 ? "s" : ""}`] : [];
  return [
    `${object.vertices.toLocaleString("en")} vertices`,
    ...count(object.particles, "particle"),
    ...count(object.edges, "edge"),
    ...count(object.groups, "rigid group"),
    ...count(object.pinned, "pin"),
    ...count(object.handles.length, "handle"),
  ].join(", ");
}

/** Numbers of a material that are worth a field, with their units and defaults; NaN for a required key. */
const MATERIALS: Record<string, [string, string, number][]> = {
  flesh: [
    ["young", "Pa", NaN],
    ["density", "kg/m³", DEFAULTS.density.flesh],
  ],
  jelly: [
    ["young", "Pa", NaN],
    ["density", "kg/m³", DEFAULTS.density.jelly],
  ],
  cloth: [
    ["stretch", "N/m", DEFAULTS.clothStretch],
    ["density", "kg/m²", DEFAULTS.density.cloth],
  ],
  rigid: [["density", "kg/m³", DEFAULTS.density.rigid]],
};

export function materialPanel(app: App): HTMLElement | null {
  const { object } = app,
    fields = MATERIALS[object?.kind ?? ""];
  if (!object || !fields) return null;
  const table = tableAt(object.table, "material");
  return section(
    "Material",
    ...fields.map(([key, unit, fallback]) =>
      numberField(
        key[0].toUpperCase() + key.slice(1),
        numberAt(table, key, fallback),
        (value) => app.send({ type: "set", path: ["objects", object.name, "material", key], value }),
        unit,
      ),
    ),
  );
}

/** Where an object is. What has handles or particles of its own is moved with them, from where it is. */
export function placePanel(app: App): HTMLElement[] {
  const { object } = app;
  if (!object) return [];
  const shown = object.vertices
    ? [exporting(app, object.name, object.kind === "handles" && object.handles.length > 0)]
    : [];
  if (object.edited || object.handles.length || !object.table.mesh) {
    const move = (change: object) => app.send({ type: "move", object: object.name, ...change });
    return [
      section(
        "Place",
        vectorField("Move by (m)", [0, 0, 0], (translate) => move({ translate }), true),
        vectorField("Turn by (degrees)", [0, 0, 0], (rotate) => move({ rotate }), true),
        numberField("Scale by (times)", 1, (scale) => move({ scale }), "", true),
        ...units(app, (scale) => move({ scale })),
        h("p", { class: "note" }, `Its ${object.handles.length ? "handles go" : "particles go"} with it.`),
      ),
      ...shown,
    ];
  }
  const table = tableAt(object.table, "transform");
  const scales = Array.isArray(table.scale) ? vectorAt(table, "scale", [1, 1, 1]) : null;
  const scale = scales?.[0] ?? numberAt(table, "scale", 1);
  // One key at a time: this panel is not made anew while somebody goes from field to field.
  const set = (key: "translate" | "rotate" | "scale", value: number | number[]) =>
    app.send({ type: "set", path: ["objects", object.name, "transform", key], value });
  return [
    section(
      "Place",
      vectorField("Position (m)", vectorAt(table, "translate", [0, 0, 0]), (translate) =>
        set("translate", translate),
      ),
      vectorField("Turn (degrees)", vectorAt(table, "rotate", [0, 0, 0]), (value) => set("rotate", value)),
      numberField("Size (times)", scale, (value) => set("scale", value)),
      ...units(app, (times) => set("scale", scales ? scales.map((each) => times * each) : times * scale)),
      row(
        button("Stand it up (z is up)", () => set("rotate", [-90, 0, 0]), {
          id: "Z up",
          title: "Turn by -90 degrees about x",
        }),
        button(
          "Put it back",
          () => app.send({ type: "set", path: ["objects", object.name, "transform"], value: null }),
          { id: "No transform", disabled: !object.table.transform },
        ),
      ),
    ),
    ...shown,
  ];
}

/** Sizes of things that people simulate [m]: what is larger or smaller is probably in other units. */
const USUAL_SIZES = [0.01, 50] as const;

/** Buttons that scale an object whose file is probably in other units. */
function units(app: App, scale: (times: number) => void): HTMLElement[] {
  const { size } = app;
  if (size >= USUAL_SIZES[0] && size <= USUAL_SIZES[1]) return [];
  const large = size > USUAL_SIZES[1];
  const by = (times: number, unit: string) =>
    button(large ? `${unit} (× ${times})` : `× ${times}`, () => scale(times), { id: `Scale ${times}` });
  return [
    h(
      "p",
      { class: "note", "data-id": "units" },
      `It is ${length(size)} large. ${large ? "Is it in millimetres?" : "Should it be larger?"}`,
    ),
    large ? row(by(0.001, "Millimetres"), by(0.01, "Centimetres")) : row(by(1000, ""), by(100, "")),
  ];
}

export function viewPanel(app: App): HTMLElement {
  return section(
    "Show",
    ...showing(app),
    row(
      button("Frame it (F)", () => app.view.frame(app.active), { id: "Frame it", disabled: !app.object }),
      button("Frame all (A)", () => app.view.frame(), { id: "Frame" }),
    ),
  );
}
