/** The panel to make and edit bodies of particles. */

import { BRUSHES, type App } from "../app";
import { button, check, choice, h, row, section, slider } from "../dom";
import type { ObjectState } from "../messages";
import { length, mean, percent, showing, tools } from "./shared";

export function authorPanel(app: App): HTMLElement[] {
  const { settings, object, tool } = app;
  if (!object) return [section("Author", h("p", { class: "empty" }, "Open a mesh first."))];
  const size = app.size,
    has = object.particles > 0,
    name = object.name;
  const chosen = app.store.get(name, "selected_particles")?.data.length ?? 0;
  const vertices = app.store.get(name, "selected_vertices")?.data.length ?? 0;
  const brush = BRUSHES.includes(tool);
  const metres = (value: number) => length(value * size);
  return [
    section(
      "Body",
      row(
        button("Make it for me", () => app.send({ type: "make", object: name }), {
          primary: !has,
          title: "Fill the whole mesh with particles, join them and let the mesh follow",
        }),
        button("Fit ellipsoids", () => app.send({ type: "fit", object: name }), { disabled: !has }),
        button("Skin", () => app.send({ type: "skin", object: name }), {
          disabled: !has,
          title: "Let the mesh follow the particles",
        }),
      ),
      has &&
        slider(
          "Stiffness of all",
          mean(app.store.get(name, "stiffness")?.data),
          [0, 1, 0.01],
          (value, done) =>
            done && app.send({ type: "paint", object: name, field: "stiffness", value, whole: true }),
        ),
    ),
    section(
      "Brush",
      tools(app, "Spray", "Place", "Erase", "Connect", "Cut", "Edge", "Paint", "Pin"),
      brush
        ? slider(
            "Brush size",
            settings.brush,
            [0.01, 0.4, 0.005],
            (value, done) => done && app.set({ brush: value }),
            metres,
          )
        : null,
      tool === "Spray" || tool === "Place"
        ? slider(
            "Spacing",
            settings.spacing,
            [0.01, 0.3, 0.005],
            (value, done) => done && app.set({ spacing: value }),
            metres,
          )
        : null,
      tool === "Place"
        ? check("In the middle, not on the surface", settings.middle, (middle) => app.set({ middle }))
        : null,
      tool === "Connect"
        ? slider(
            "Longest edge",
            settings.longest,
            [0.01, 0.6, 0.01],
            (value, done) => done && app.set({ longest: value }),
            metres,
          )
        : null,
      tool === "Pin"
        ? choice(
            "Pins",
            settings.pin ? "1" : "0",
            [
              ["1", "Hold"],
              ["0", "Let go"],
            ],
            (value) => app.set({ pin: value === "1" }),
          )
        : null,
      ...(tool === "Paint"
        ? [
            choice(
              "Property",
              settings.field,
              [
                ["stiffness", "Stiffness"],
                ["torsion", "Torsion"],
              ],
              (field) => app.set({ field, color: field }),
            ),
            slider("Value", settings.value, [0, 1, 0.01], (value, done) => done && app.set({ value })),
            slider(
              "Strength",
              settings.strength,
              [0.05, 1, 0.05],
              (value, done) => done && app.set({ strength: value }),
              percent,
            ),
          ]
        : []),
    ),
    section(
      "Select",
      tools(app, "Rectangle", "Lasso"),
      choice(
        "What",
        settings.select,
        [
          ["particles", "Particles"],
          ["vertices", "Vertices of the mesh"],
        ],
        (select) => app.set({ select }),
      ),
      h(
        "p",
        { class: "note" },
        chosen || vertices
          ? `${chosen} particles, ${vertices} vertices selected`
          : "Nothing selected. Shift adds, Ctrl removes.",
      ),
      object.groups ? groupList(app, object) : null,
      row(
        button("Group", () => app.send({ type: "group", object: name }), {
          disabled: !chosen,
          title: "One rigid piece",
        }),
        button("Loosen", () => app.send({ type: "group", object: name, loosen: true }), {
          disabled: !chosen,
        }),
        button(
          "Connect",
          () => app.send({ type: "connect", object: name, longest: settings.longest * size }),
          { id: "Connect selected", disabled: chosen < 2 },
        ),
        button("Cut", () => app.send({ type: "cut", object: name }), {
          id: "Cut selected",
          disabled: chosen < 2,
        }),
        button("Erase", () => app.send({ type: "erase", object: name }), {
          id: "Erase selected",
          disabled: !chosen,
        }),
        button("Pin", () => app.send({ type: "pin", object: name }), {
          id: "Pin selected",
          disabled: !chosen,
        }),
        button("Skin only these", () => app.send({ type: "skin", object: name, selected: true }), {
          disabled: !chosen || !vertices,
        }),
      ),
    ),
    section("Show", ...showing(app)),
  ];
}

/** Rigid groups, which may share particles, to select what is in one. */
function groupList(app: App, object: ObjectState): HTMLElement {
  const all = Array.from(app.store.get(object.name, "members")?.data ?? []);
  const ends = Array.from(app.store.get(object.name, "member_ends")?.data ?? []);
  return h(
    "div",
    { class: "tools groups" },
    ...ends.map((end, group) => {
      const indices = all.slice(group ? ends[group - 1] : 0, end);
      return button(
        `Group ${group + 1}`,
        () => app.send({ type: "select", object: object.name, what: "particles", indices }),
        { id: `group ${group + 1}`, title: `Select its ${indices.length} particles` },
      );
    }),
  );
}
