/** The panel to bind objects to each other. */

import type { App } from "../app";
import { button, choice, h, numberField, row, section } from "../dom";
import { BINDABLE, DEFAULTS, FAIR_GAP, POOR_GAP, type AttachState } from "../messages";
import { numberAt, textAt, vectorAt } from "../tables";
import { tools } from "./shared";

/** The joints that turn about an axis, slide along it or across it. */
const WITH_AXIS = ["hinge", "prismatic", "cylindrical", "planar"];

/** How well a binding with this least gap is determined; NaN for one that has none. */
function health(gap: number): AttachState["health"] {
  if (Number.isNaN(gap)) return "broken";
  return gap < POOR_GAP ? "poor" : gap < FAIR_GAP ? "fair" : "good";
}

/** Show how well bindings are determined while the simulation runs. */
export function showGaps(app: App): void {
  const gaps = app.store.get("", "gaps");
  gaps?.data.forEach((gap, k) => {
    const light = document.querySelector<HTMLElement>(`[data-light="${k}"]`);
    if (!light) return;
    light.className = `light ${health(gap)}`;
    light.title = `gap now ${gap.toFixed(3)}`;
  });
}

export function gluePanel(app: App): HTMLElement[] {
  const { object, settings } = app,
    state = app.store.state!;
  const bindable = (kind: string) => BINDABLE.some((each) => each === kind);
  const others = app.objects.filter((other) => other.name !== app.active && bindable(other.kind));
  const chosen = object ? (app.store.get(object.name, "selected_points")?.data.length ?? 0) : 0;
  const to = others.find((other) => other.name === settings.to)?.name ?? others[0]?.name ?? "";
  const parts = [
    section(
      "Attach",
      object && !bindable(object.kind)
        ? h(
            "p",
            { class: "empty" },
            `Flesh, jelly, cloth and rigid objects can be bound. Say above what ${object.name} is made of.`,
          )
        : h(
            "div",
            {},
            tools(app, "Rectangle", "Lasso"),
            h(
              "p",
              { class: "note" },
              chosen
                ? `${chosen} points of ${app.active} selected`
                : `1. Select points of ${app.active || "an object"}.`,
            ),
            object &&
              object.kind !== "rigid" &&
              row(
                button("Hold these still", () => app.send({ type: "pin", object: object.name }), {
                  id: "Hold",
                  disabled: !chosen,
                }),
                button("Let all go", () => app.send({ type: "pin", object: object.name, pinned: false }), {
                  id: "Let go",
                  disabled: object.table.pin === undefined,
                }),
              ),
          ),
      others.length
        ? choice(
            "2. Bind them to",
            to,
            others.map((other) => [other.name, other.name] as const),
            (value) => app.set({ to: value }),
          )
        : h(
            "p",
            { class: "empty" },
            app.objects.length < 2
              ? "There is no second object to bind it to: open or add one."
              : "No other object can be bound to: choose one in the list, and make it flesh, jelly, cloth " +
                  "or rigid with “It is”.",
          ),
      choice(
        "3. By",
        settings.binding,
        [
          ["glue", "Glue: hard"],
          ["spring", "Springs"],
          ["ball", "Ball joint"],
          ["hinge", "Hinge"],
          ["weld", "Weld"],
          ["prismatic", "Slider: along an axis"],
          ["cylindrical", "Slider that turns: along and about an axis"],
          ["planar", "Slider over a plane, across an axis"],
        ],
        (binding) => app.set({ binding }),
      ),
      button("Attach", () => app.send({ type: "attach", object: app.active, to, kind: settings.binding }), {
        primary: true,
        disabled: !chosen || !to,
      }),
    ),
  ];
  parts.push(
    section(
      "Attachments",
      ...(state.attach.length
        ? state.attach.map((binding, k) => card(app, binding, k))
        : [h("p", { class: "empty" }, "None yet.")]),
    ),
  );
  return parts;
}

/** A binding, and what can be changed of it. */
function card(app: App, binding: AttachState, number: number): HTMLElement {
  const { table } = binding;
  const set = (key: string) => (value: number) =>
    app.send({ type: "set", path: ["attach", number, key], value });
  const moment = (what: "attach" | "release") => {
    const there = table[what] !== undefined;
    const time = typeof table[what] === "number" ? String(table[what]) : textAt(table, what);
    return button(
      there ? `${what} at ${time} ✕` : `${what} in this frame`,
      () => app.send({ type: "attach_key", number, what, remove: there }),
      { id: `${what} ${number}`, active: there },
    );
  };
  const kind = textAt(table, table.kind === "joint" ? "type" : "kind");
  const axis = vectorAt(table, "axis", [1, 0, 0]);
  return h(
    "div",
    { class: "card", "data-id": `attachment ${number}` },
    h(
      "div",
      {},
      h("b", {
        class: `light ${binding.health}`,
        "data-light": String(number),
        title: binding.problem || `gap ${binding.gap?.toFixed(3)}`,
      }),
      `${textAt(table, "from")} → ${textAt(table, "to")}: ${kind}`,
      h(
        "small",
        {},
        binding.problem || ` ${binding.points} points, gap ${binding.gap?.toFixed(2)} (${binding.health})`,
      ),
    ),
    table.kind === "spring" &&
      numberField("Stiffness", numberAt(table, "stiffness", NaN), set("stiffness"), "N/m"),
    numberField("Parents", numberAt(table, "parents", DEFAULTS.parents), (value) =>
      set("parents")(Math.round(value)),
    ),
    WITH_AXIS.includes(textAt(table, "type")) &&
      choice(
        "Axis",
        ["x", "y", "z"].find((_, k) => axis[k] === 1) ?? "",
        [
          ["x", "x"],
          ["y", "y"],
          ["z", "z"],
          ["", "another"],
        ],
        (to) =>
          to &&
          app.send({
            type: "set",
            path: ["attach", number, "axis"],
            value: ["x", "y", "z"].map((each) => (each === to ? 1 : 0)),
          }),
      ),
    row(
      moment("attach"),
      moment("release"),
      button("Remove", () => app.send({ type: "detach", number }), { id: `detach ${number}` }),
    ),
  );
}
