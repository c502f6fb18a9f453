/** The panel on the right: what can be done in the mode, with the object that is chosen. */

import type { App, Tool } from "./app";
import { button, check, choice, h, numberField, row, section, slider, vectorField } from "./dom";
import { SHAPES, type AttachState, type ObjectState } from "./messages";

const KINDS: [string, string][] = [
  ["handles", "Mesh with handles"], ["particles", "Particles"], ["flesh", "Flesh"], ["jelly", "Jelly"],
  ["cloth", "Cloth"], ["rigid", "Rigid"], ["collider", "Obstacle"],
];
/** A length that can be read, however small it is. */
const length = (metres: number) => (metres < 0.01 ? `${+(1000 * metres).toPrecision(2)} mm` : `${+metres.toPrecision(2)} m`);
const mean = (numbers: ArrayLike<number> = []) => Array.from(numbers).reduce((a, b) => a + b, 0) / (numbers.length || 1);
const percent = (value: number) => `${(100 * value).toFixed(value < 0.095 ? 1 : 0)} %`;

/** The lights of attachments, while the simulation runs. */
export function showGaps(app: App): void {
  const gaps = app.store.get("", "gaps");
  gaps?.data.forEach((gap, k) => {
    const light = document.querySelector<HTMLElement>(`[data-light="${k}"]`);
    if (!light) return;
    light.className = `light ${Number.isNaN(gap) ? "broken" : gap < 0.02 ? "poor" : gap < 0.2 ? "fair" : "good"}`;
    light.title = `gap now ${gap.toFixed(3)}`;
  });
}

export function panel(app: App): HTMLElement[] {
  if (app.store.state?.run) return [runPanel(app)];
  const parts = [objectsPanel(app)];
  const material = app.mode === "View" || app.mode === "Glue" ? materialPanel(app) : null;
  if (material) parts.push(material);
  if (app.mode === "View") parts.push(...placePanel(app), viewPanel(app));
  if (app.mode === "Author") parts.push(...authorPanel(app));
  if (app.mode === "Pose") parts.push(...posePanel(app));
  if (app.mode === "Glue") parts.push(...gluePanel(app));
  if (app.mode === "Play") parts.push(...playPanel(app));
  return parts;
}

function tools(app: App, ...names: Tool[]): HTMLElement {
  return h("div", { class: "tools" }, ...names.map((name) =>
    button(name, () => app.setTool(name), { id: `tool ${name}`, active: app.tool === name })));
}

function counts(object: ObjectState): string {
  const count = (number: number, what: string) => (number ? [`${number.toLocaleString("en")} ${what}${number > 1 ? "s" : ""}`] : []);
  return [
    `${object.vertices.toLocaleString("en")} vertices`, ...count(object.particles, "particle"), ...count(object.edges, "edge"),
    ...count(object.groups, "rigid group"), ...count(object.pinned, "pin"), ...count(object.handles.length, "handle"),
  ].join(", ");
}

function objectsPanel(app: App): HTMLElement {
  const list = app.objects.map((object) => {
    const active = object.name === app.active;
    const eye = button(object.visible ? "Hide" : "Show", () =>
      app.send({ type: "set", path: ["objects", object.name, "visible"], value: !object.visible }), { id: `eye ${object.name}` });
    eye.addEventListener("click", (event) => event.stopPropagation());
    return h("li", { class: active ? "active" : "", "data-id": `object ${object.name}`, click: () => app.choose(object.name) },
      h("i", { style: `background:${object.color}` }),
      h("span", { class: "name" }, object.name),
      h("small", {}, KINDS.find(([kind]) => kind === object.kind)?.[1] ?? object.kind),
      eye,
      active && h("div", { class: "counts" }, counts(object)),
    );
  });
  const object = app.object;
  return section("Objects",
    list.length ? h("ul", { class: "objects" }, ...list) : h("p", { class: "empty" }, "Nothing yet: open a mesh, or add a shape."),
    choice("Add a shape", "", [["", "choose…"], ...SHAPES.map((name): [string, string] => [name, capitalised(name)])], (name) => {
      const shape = SHAPES.find((one) => one === name);
      if (shape) app.send({ type: "add_shape", shape });
    }),
    object && choice("It is", object.kind, KINDS, (kind) => app.send({ type: "set_kind", object: object.name, kind: kind as "flesh" })),
    object && app.mode === "View" && row(
      button("Rename…", () => {
        const name = prompt("A new name", object.name);
        if (name) app.send({ type: "rename", object: object.name, name });
      }),
      button("Remove", () => app.send({ type: "remove", object: object.name }), { id: "Remove object" }),
    ),
  );
}

function capitalised(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1);
}

/** Numbers of a material that are worth a field, with their units and what they are without one. */
const MATERIALS: Record<string, [string, string, number][]> = {
  flesh: [["young", "Pa", 1e5], ["density", "kg/m³", 1000]],
  jelly: [["stiffness", "N/m", 500], ["density", "kg/m³", 1000]],
  cloth: [["stretch", "N/m", 500], ["density", "kg/m²", 0.2]],
  rigid: [["density", "kg/m³", 1000]],
};

function materialPanel(app: App): HTMLElement | null {
  const { object } = app, fields = MATERIALS[object?.kind ?? ""];
  if (!object || !fields) return null;
  const table = (object.table.material ?? {}) as Record<string, number>;
  return section("Material", ...fields.map(([key, unit, usual]) =>
    numberField(key[0].toUpperCase() + key.slice(1), table[key] ?? usual,
      (value) => app.send({ type: "set", path: ["objects", object.name, "material", key], value }), unit)));
}

/** Where an object is. What has handles or particles of its own is moved with them, from where it is. */
function placePanel(app: App): HTMLElement[] {
  const { object } = app;
  if (!object) return [];
  const shown = object.vertices ? [exporting(app, object.name, object.kind === "handles" && object.handles.length > 0)] : [];
  if (object.edited || object.handles.length || !object.table.mesh) {
    const move = (change: object) => app.send({ type: "move", object: object.name, ...change });
    return [section("Place",
      vectorField("Move by (m)", [0, 0, 0], (translate) => move({ translate }), true),
      vectorField("Turn by (degrees)", [0, 0, 0], (rotate) => move({ rotate }), true),
      numberField("Scale by (times)", 1, (scale) => move({ scale }), "", true),
      ...units(app, (scale) => move({ scale })),
      h("p", { class: "note" }, `Its ${object.handles.length ? "handles go" : "particles go"} with it.`)), ...shown];
  }
  type Vector = [number, number, number];
  const table = (object.table.transform ?? {}) as { translate?: Vector; rotate?: Vector; scale?: number | Vector };
  const scale = Array.isArray(table.scale) ? table.scale[0] : table.scale ?? 1;
  const rotate = table.rotate ?? [0, 0, 0];
  // One key at a time: this panel is not made anew while somebody goes from field to field.
  const set = (key: "translate" | "rotate" | "scale", value: number | number[]) =>
    app.send({ type: "set", path: ["objects", object.name, "transform", key], value });
  return [section("Place",
    vectorField("Position (m)", table.translate ?? [0, 0, 0], (translate) => set("translate", translate)),
    vectorField("Turn (degrees)", rotate, (value) => set("rotate", value)),
    numberField("Size (times)", scale, (value) => set("scale", value)),
    ...units(app, (times) => set("scale", Array.isArray(table.scale) ? table.scale.map((each) => times * each) : times * scale)),
    row(
      button("Stand it up (z is up)", () => set("rotate", [-90, 0, 0]), { id: "Z up", title: "Turn by -90 degrees about x" }),
      button("Put it back", () => app.send({ type: "set", path: ["objects", object.name, "transform"], value: null }), { id: "No transform", disabled: !object.table.transform }))),
  ...shown];
}

/** A size that hardly anything has comes from a file in other units. */
function units(app: App, scale: (times: number) => void): HTMLElement[] {
  const { size } = app;
  if (size >= 0.01 && size <= 50) return [];
  const large = size > 50;
  const by = (times: number, unit: string) => button(large ? `${unit} (× ${times})` : `× ${times}`, () => scale(times), { id: `Scale ${times}` });
  return [
    h("p", { class: "note", "data-id": "units" }, `It is ${length(size)} large. ${large ? "Is it in millimetres?" : "Should it be larger?"}`),
    large ? row(by(0.001, "Millimetres"), by(0.01, "Centimetres")) : row(by(1000, ""), by(100, "")),
  ];
}

function viewPanel(app: App): HTMLElement {
  return section("Show", ...showing(app),
    row(
      button("Frame it (F)", () => app.view.frame(app.active), { id: "Frame it", disabled: !app.object }),
      button("Frame all (A)", () => app.view.frame(), { id: "Frame" })));
}

function showing(app: App): HTMLElement[] {
  const { settings } = app;
  return [
    h("div", { class: "grid" },
      check("Shaded", settings.mesh, (mesh) => app.set({ mesh })),
      check("Wire", settings.wire, (wire) => app.set({ wire })),
      check("Particles", settings.particles, (particles) => app.set({ particles })),
      check("Ellipsoids", settings.ellipsoids, (ellipsoids) => app.set({ ellipsoids })),
      check("Edges", settings.edges, (edges) => app.set({ edges })),
      app.mode === "Play" ? check("See through", settings.see, (see) => app.set({ see }))
        : check("See through", settings.clear, (clear) => app.set({ clear })),
    ),
    choice("Colour by", settings.colour, [
      ["plain", "Object"], ["stiffness", "Stiffness"], ["torsion", "Torsion (edges)"], ["group", "Rigid group"],
      ["gap", "Gap of frames"], ["weight", "Skin weights"],
    ], (colour) => app.set({ colour: colour as "gap" })),
    legend(app),
  ].filter((part): part is HTMLElement => part !== null);
}

function legend(app: App): HTMLElement | null {
  const words: Record<string, [string, string]> = {
    stiffness: ["soft", "stiff"], torsion: ["free", "stiff"], gap: ["a line", "all round"], weight: ["0", "1"],
  };
  const ends = words[app.settings.colour];
  if (app.settings.colour === "weight" && !app.store.get(app.active, "selected_particles")) {
    return h("p", { class: "note" }, "Each particle has a colour. Select some to see how much they carry.");
  }
  return ends ? h("div", { class: "legend" }, ends[0], h("i", {}), ends[1]) : null;
}

function authorPanel(app: App): HTMLElement[] {
  const { settings, object, tool } = app;
  if (!object) return [section("Author", h("p", { class: "empty" }, "Open a mesh first."))];
  const size = app.size, has = object.particles > 0, name = object.name;
  const chosen = app.store.get(name, "selected_particles")?.data.length ?? 0;
  const vertices = app.store.get(name, "selected_vertices")?.data.length ?? 0;
  const brush = ["Spray", "Erase", "Connect", "Cut", "Paint", "Pin"].includes(tool);
  const metres = (value: number) => length(value * size);
  return [
    section("Body",
      row(
        button("Make it for me", () => app.send({ type: "make", object: name }), {
          primary: !has, title: "Fill the whole mesh with particles, join them and let the mesh follow",
        }),
        button("Fit ellipsoids", () => app.send({ type: "fit", object: name }), { disabled: !has }),
        button("Skin", () => app.send({ type: "skin", object: name }), { disabled: !has, title: "Let the mesh follow the particles" }),
      ),
      has && slider("Stiffness of all", mean(app.store.get(name, "stiffness")?.data), [0, 1, 0.01], (value, done) =>
        done && app.send({ type: "paint", object: name, centres: [[0, 0, 0]], radius: 1e12, field: "stiffness", value, strength: 1 }))),
    section("Brush", tools(app, "Spray", "Place", "Erase", "Connect", "Cut", "Edge", "Paint", "Pin"),
      brush ? slider("Brush size", settings.brush, [0.01, 0.4, 0.005], (value, done) => done && app.set({ brush: value }), metres) : null,
      tool === "Spray" || tool === "Place"
        ? slider("Spacing", settings.spacing, [0.01, 0.3, 0.005], (value, done) => done && app.set({ spacing: value }), metres) : null,
      tool === "Place" ? check("In the middle, not on the surface", settings.middle, (middle) => app.set({ middle })) : null,
      tool === "Connect"
        ? slider("Longest edge", settings.longest, [0.01, 0.6, 0.01], (value, done) => done && app.set({ longest: value }), metres) : null,
      tool === "Pin" ? choice("Pins", settings.pin ? "1" : "0", [["1", "Hold"], ["0", "Let go"]], (value) => app.set({ pin: value === "1" })) : null,
      ...(tool === "Paint" ? [
        choice("Property", settings.field, [["stiffness", "Stiffness"], ["torsion", "Torsion"]], (field) => app.set({ field: field as "torsion", colour: field as "torsion" })),
        slider("Value", settings.value, [0, 1, 0.01], (value, done) => done && app.set({ value })),
        slider("Strength", settings.strength, [0.05, 1, 0.05], (value, done) => done && app.set({ strength: value }), percent),
      ] : [])),
    section("Select", tools(app, "Rectangle", "Lasso"),
      choice("What", settings.select, [["particles", "Particles"], ["vertices", "Vertices of the mesh"]], (select) => app.set({ select: select as "particles" })),
      h("p", { class: "note" }, chosen || vertices ? `${chosen} particles, ${vertices} vertices selected` : "Nothing selected. Shift adds, Ctrl removes."),
      object.groups ? groupList(app, object) : null,
      row(
        button("Group", () => app.send({ type: "group", object: name }), { disabled: !chosen, title: "One rigid piece" }),
        button("Loosen", () => app.send({ type: "group", object: name, loosen: true }), { disabled: !chosen }),
        button("Connect", () => app.send({ type: "connect", object: name, longest: settings.longest * size }), { id: "Connect selected", disabled: chosen < 2 }),
        button("Cut", () => app.send({ type: "cut", object: name }), { id: "Cut selected", disabled: chosen < 2 }),
        button("Erase", () => app.send({ type: "erase", object: name }), { id: "Erase selected", disabled: !chosen }),
        button("Pin", () => app.send({ type: "pin", object: name }), { id: "Pin selected", disabled: !chosen }),
        button("Skin only these", () => app.send({ type: "skin", object: name, selected: true }), { disabled: !chosen || !vertices }),
      )),
    section("Show", ...showing(app)),
  ];
}

/** Rigid groups, which may share particles, to select what is in one. */
function groupList(app: App, object: ObjectState): HTMLElement {
  const all = Array.from(app.store.get(object.name, "members")?.data ?? []);
  const ends = Array.from(app.store.get(object.name, "member_ends")?.data ?? []);
  return h("div", { class: "tools groups" }, ...ends.map((end, group) => {
    const indices = all.slice(group ? ends[group - 1] : 0, end);
    return button(`Group ${group + 1}`, () => app.send({ type: "select", object: object.name, what: "particles", indices }),
      { id: `group ${group + 1}`, title: `Select its ${indices.length} particles` });
  }));
}

function posePanel(app: App): HTMLElement[] {
  const { object, settings, handles } = app;
  if (!object) return [section("Pose", h("p", { class: "empty" }, "Open a mesh first."))];
  const name = object.name;
  if (object.kind !== "handles") {
    return [section("Pose",
      h("p", { class: "empty" }, `${name} is not moved by handles.`),
      button("Make it a mesh with handles", () => app.send({ type: "set_kind", object: name, kind: "handles" }), { primary: true }))];
  }
  const set = (key: string, value: unknown, stroke = 0) => app.send({ type: "set", path: ["objects", name, key], value, stroke });
  const table = object.table as { falloff?: number; stretch?: number; distance?: string };
  const chosen = handles.map((handle) => object.handles[handle]?.name).filter(Boolean);
  const link = (how: "group" | "chain" | "none") => app.send({ type: "link", object: name, handles: chosen, how });
  return [
    section("Handles", tools(app, "Add handle", "Drag handle"),
      choice("Mirror across", settings.mirror, [["", "nothing"], ["x", "left and right (x)"], ["y", "up and down (y)"], ["z", "front and back (z)"]],
        (mirror) => app.set({ mirror: mirror as "x" })),
      object.handles.length
        ? h("ul", { class: "handles" }, ...object.handles.map((handle, k) =>
            h("li", {
              class: handles.includes(k) ? "active" : "", "data-id": handle.name,
              click: (event: Event) => app.chooseHandles((event as MouseEvent).shiftKey
                ? handles.includes(k) ? handles.filter((other) => other !== k) : [...handles, k] : [k]),
            },
            h("span", { class: "name" }, handle.name), h("small", {}, [handle.link, handle.keys.length && `${handle.keys.length} key${handle.keys.length > 1 ? "s" : ""}`].filter(Boolean).join(", ")))))
        : h("p", { class: "empty" }, "Click on the mesh to place handles."),
      row(
        button("Pair", () => link("group"), { disabled: chosen.length < 2, title: "The chosen handles move as one piece" }),
        button("Chain", () => link("chain"), { disabled: chosen.length < 2, title: "Bones from the first chosen handle to the last" }),
        button("Unlink", () => link("none"), { disabled: !chosen.length }),
        button("Remove", () => app.removeHandles(), { id: "Remove handle", disabled: !chosen.length }),
      )),
    section("How the mesh follows",
      slider("Fall-off", table.falloff ?? 1, [0.25, 5, 0.05], (value, done) => set("falloff", value, app.sliding(done))),
      slider("Stretch", table.stretch ?? 0, [0, 1, 0.01], (value, done) => set("stretch", value, app.sliding(done))),
      choice("Distance", table.distance ?? "inside", [["inside", "through the inside"], ["euclidean", "straight"]], (value) => set("distance", value))),
    section("Keys",
      row(
        button("Set key", () => app.send({ type: "key", object: name }), { disabled: !object.handles.length, title: "Keep the pose in this frame" }),
        button("Remove key", () => app.send({ type: "key", object: name, remove: true }), { disabled: !object.handles.length }),
      ),
      h("p", { class: "note" }, "Dragging a handle sets its key in the frame that is shown.")),
    exporting(app, name, true),
  ];
}

function exporting(app: App, name: string, animation: boolean): HTMLElement {
  const ask = (all: boolean) => {
    const path = prompt(all ? "Name of the files (.ply, .obj, .glb: one each frame; .npy: one array)" : "Name of the file",
      `${name}_${all ? "animation" : "posed"}.ply`);
    if (path) app.write({ type: "export", object: name, path, animation: all, replace: false });
  };
  return section("Export", row(
    button("This pose…", () => ask(false), { id: "Export pose" }),
    animation && button("Animation…", () => ask(true), { id: "Export animation" }),
  ));
}

function gluePanel(app: App): HTMLElement[] {
  const { object, settings } = app, state = app.store.state!;
  const tied = (kind: string) => ["flesh", "cloth", "jelly", "rigid", "animated"].includes(kind);
  const others = app.objects.filter((other) => other.name !== app.active && tied(other.kind));
  const chosen = object ? app.store.get(object.name, "selected_points")?.data.length ?? 0 : 0;
  const to = others.find((other) => other.name === settings.to)?.name ?? others[0]?.name ?? "";
  const parts = [section("Attach",
    object && !tied(object.kind)
      ? h("p", { class: "empty" }, `Flesh, jelly, cloth and rigid objects can be tied. Say above what ${object.name} is made of.`)
      : h("div", {},
        tools(app, "Rectangle", "Lasso"),
        h("p", { class: "note" }, chosen ? `${chosen} points of ${app.active} selected` : `1. Select points of ${app.active || "an object"}.`),
        object && object.kind !== "rigid" && row(
          button("Hold these still", () => app.send({ type: "pin", object: object.name }), { id: "Hold", disabled: !chosen }),
          button("Let all go", () => app.send({ type: "pin", object: object.name, pinned: false }), { id: "Let go", disabled: object.table.pin === undefined }))),
    others.length
      ? choice("2. Tie them to", to, others.map((other) => [other.name, other.name]), (value) => app.set({ to: value }))
      : h("p", { class: "empty" }, app.objects.length < 2 ? "There is no second object to tie it to: open or add one."
        : "No other object can be tied to: choose one in the list, and make it flesh, jelly, cloth or rigid with “It is”."),
    choice("3. By", settings.tie, [
      ["glue", "Glue: hard"], ["spring", "Springs"], ["ball", "Ball joint"], ["hinge", "Hinge"], ["weld", "Weld"],
    ], (tie) => app.set({ tie: tie as "glue" })),
    button("Attach", () => app.send({ type: "attach", object: app.active, to, kind: settings.tie }), { primary: true, disabled: !chosen || !to }),
  )];
  parts.push(section("Attachments",
    ...(state.attach.length ? state.attach.map((tie, k) => attachment(app, tie, k)) : [h("p", { class: "empty" }, "None yet.")])));
  return parts;
}

function attachment(app: App, tie: AttachState, number: number): HTMLElement {
  const table = tie.table as Record<string, string | number>;
  const set = (key: string) => (value: number) => app.send({ type: "set", path: ["attach", number, key], value });
  const moment = (what: "attach" | "release") => {
    const there = table[what] !== undefined;
    return button(there ? `${what} at ${table[what]} ✕` : `${what} in this frame`,
      () => app.send({ type: "attach_key", number, what, remove: there }), { id: `${what} ${number}`, active: there });
  };
  const kind = table.kind === "joint" ? table.type : table.kind;
  const axis = (tie.table.axis ?? [1, 0, 0]) as number[];
  return h("div", { class: "card", "data-id": `attachment ${number}` },
    h("div", {}, h("b", { class: `light ${tie.health}`, "data-light": String(number), title: tie.problem || `gap ${tie.gap?.toFixed(3)}` }),
      `${table.from} → ${table.to}: ${kind}`, h("small", {}, tie.problem || ` ${tie.points} points, gap ${tie.gap?.toFixed(2)} (${tie.health})`)),
    table.kind === "spring" && numberField("Stiffness", Number(table.stiffness), set("stiffness"), "N/m"),
    numberField("Parents", Number(table.parents ?? 8), (value) => set("parents")(Math.round(value))),
    table.type === "hinge" && choice("Axis", ["x", "y", "z"].find((_, k) => axis[k] === 1) ?? "", [["x", "x"], ["y", "y"], ["z", "z"], ["", "another"]],
      (to) => to && app.send({ type: "set", path: ["attach", number, "axis"], value: ["x", "y", "z"].map((each) => (each === to ? 1 : 0)) })),
    row(
      moment("attach"), moment("release"),
      button("Remove", () => app.send({ type: "detach", number }), { id: `detach ${number}` }),
    ));
}

function playPanel(app: App): HTMLElement[] {
  const state = app.store.state!;
  const gravity = (value: number) => app.send({ type: "set", path: ["world", "gravity"], value: [state.gravity[0], -value, state.gravity[2]] });
  const { simulated } = app;
  const solid = simulated.filter((object) => object.kind !== "particles").length;
  const apart = simulated.some((object) => object.kind === "particles") && simulated.some((object) => object.kind !== "particles");
  const met = !simulated.length || state.ground !== null || app.objects.some((object) => object.kind === "collider" || object.pinned || object.table.pin);
  const idle = app.objects.length > 0 && app.objects.every((object) => object.kind === "handles" && !object.handles.length);
  return [
    section("Simulation",
      idle && h("p", { class: "empty" }, "Nothing moves yet. In Author, make a body of particles; or say above what the object is made of."),
      slider("Gravity", -state.gravity[1], [0, 20, 0.1], (value, done) => done && gravity(value), (value) => `${value.toFixed(1)} m/s²`),
      !met && !idle && h("p", { class: "note" }, "Nothing is below: tick Ground, or things fall out of the picture."),
      apart && h("p", { class: "note" }, "Particles do not meet flesh, jelly, cloth and rigid objects: all meet the ground and obstacles."),
      solid > 1 && h("p", { class: "note" }, "Flesh, jelly, cloth and rigid objects meet each other where the boxes around them are apart at the start."),
      check("Ground", state.ground !== null, (on) => app.send({ type: "ground", on })),
      state.ground !== null && numberField("Height of the ground", state.ground,
        (value) => app.send({ type: "set", path: ["objects", "ground", "mesh", "point"], value: [0, value, 0] }), "m"),
      numberField("Frames", state.frames.end - state.frames.start + 1,
        (value) => app.send({ type: "set", path: ["frames", "count"], value: Math.round(value) })),
      numberField("Frames a second", state.frames.rate, (value) => app.send({ type: "set", path: ["frames", "rate"], value }), "1/s"),
      simulated.length > 0 && h("p", { class: "note" }, "While it runs, drag objects with the mouse."),
      h("div", { class: "readout" }, h("span", { id: "readout" }))),
    section("Show", ...showing(app)),
  ];
}

function runPanel(app: App): HTMLElement {
  const run = app.store.state!.run!;
  return section(run.growing ? "Run, still under way" : "Finished run", h("p", {}, run.folder),
    h("p", { class: "note" }, `Frames ${run.first} to ${run.last}, ${run.rate} a second`),
    button("Back to the scene", () => app.send({ type: "close_run" }), { primary: true, id: "Close run" }));
}
