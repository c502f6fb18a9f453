/** The panel to place handles, link them and set keys. */

import type { App } from "../app";
import { button, choice, h, row, section, slider } from "../dom";
import { DEFAULTS } from "../messages";
import { numberAt, textAt } from "../tables";
import { exporting, tools } from "./shared";

export function posePanel(app: App): HTMLElement[] {
  const { object, settings, handles } = app;
  if (!object) return [section("Pose", h("p", { class: "empty" }, "Open a mesh first."))];
  const name = object.name;
  if (object.kind !== "handles") {
    return [
      section(
        "Pose",
        h("p", { class: "empty" }, `${name} is not moved by handles.`),
        button(
          "Make it a mesh with handles",
          () => app.send({ type: "set_kind", object: name, kind: "handles" }),
          { primary: true },
        ),
      ),
    ];
  }
  const set = (key: string, value: unknown, stroke = 0) =>
    app.send({ type: "set", path: ["objects", name, key], value, stroke });
  const { table } = object;
  const chosen = handles.map((handle) => object.handles[handle]?.name).filter(Boolean);
  const link = (how: "group" | "chain" | "none") =>
    app.send({ type: "link", object: name, handles: chosen, how });
  return [
    section(
      "Handles",
      tools(app, "Add handle", "Drag handle"),
      choice(
        "Mirror across",
        settings.mirror,
        [
          ["", "nothing"],
          ["x", "left and right (x)"],
          ["y", "up and down (y)"],
          ["z", "front and back (z)"],
        ],
        (mirror) => app.set({ mirror }),
      ),
      object.handles.length
        ? h(
            "ul",
            { class: "handles" },
            ...object.handles.map((handle, k) =>
              h(
                "li",
                {
                  class: handles.includes(k) ? "active" : "",
                  "data-id": handle.name,
                  click: (event: Event) =>
                    app.chooseHandles(
                      event instanceof MouseEvent && event.shiftKey
                        ? handles.includes(k)
                          ? handles.filter((other) => other !== k)
                          : [...handles, k]
                        : [k],
                    ),
                },
                h("span", { class: "name" }, handle.name),
                h(
                  "small",
                  {},
                  [
                    handle.link,
                    handle.keys.length && `${handle.keys.length} key${handle.keys.length > 1 ? "s" : ""}`,
                  ]
                    .filter(Boolean)
                    .join(", "),
                ),
              ),
            ),
          )
        : h("p", { class: "empty" }, "Click on the mesh to place handles."),
      row(
        button("Pair", () => link("group"), {
          disabled: chosen.length < 2,
          title: "The chosen handles move as one piece",
        }),
        button("Chain", () => link("chain"), {
          disabled: chosen.length < 2,
          title: "Bones from the first chosen handle to the last",
        }),
        button("Unlink", () => link("none"), { disabled: !chosen.length }),
        button("Remove", () => app.removeHandles(), { id: "Remove handle", disabled: !chosen.length }),
      ),
    ),
    section(
      "How the mesh follows",
      slider("Fall-off", numberAt(table, "falloff", DEFAULTS.falloff), [0.25, 5, 0.05], (value, done) =>
        set("falloff", value, app.sliding(done)),
      ),
      slider("Stretch", numberAt(table, "stretch", DEFAULTS.stretch), [0, 1, 0.01], (value, done) =>
        set("stretch", value, app.sliding(done)),
      ),
      choice(
        "Distance",
        textAt(table, "distance", DEFAULTS.distance),
        [
          ["inside", "through the inside"],
          ["euclidean", "straight"],
        ],
        (value) => set("distance", value),
      ),
    ),
    section(
      "Keys",
      row(
        button("Set key", () => app.send({ type: "key", object: name }), {
          disabled: !object.handles.length,
          title: "Keep the pose in this frame",
        }),
        button("Remove key", () => app.send({ type: "key", object: name, remove: true }), {
          disabled: !object.handles.length,
        }),
      ),
      h("p", { class: "note" }, "Dragging a handle sets its key in the frame that is shown."),
    ),
    exporting(app, name, true),
  ];
}
