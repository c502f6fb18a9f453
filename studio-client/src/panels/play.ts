/** The panels to simulate, and to look at a finished run. */

import type { App } from "../app";
import { button, check, h, numberField, section, slider } from "../dom";
import { GROUND } from "../messages";
import { showing } from "./shared";

export function playPanel(app: App): HTMLElement[] {
  const state = app.store.state!;
  const gravity = (value: number) =>
    app.send({
      type: "set",
      path: ["world", "gravity"],
      value: [state.gravity[0], -value, state.gravity[2]],
    });
  const { simulated } = app;
  const solid = simulated.filter((object) => object.kind !== "particles").length;
  const apart =
    simulated.some((object) => object.kind === "particles") &&
    simulated.some((object) => object.kind !== "particles");
  const met =
    !simulated.length ||
    state.ground !== null ||
    app.objects.some((object) => object.kind === "collider" || object.pinned || object.table.pin);
  const idle =
    app.objects.length > 0 &&
    app.objects.every((object) => object.kind === "handles" && !object.handles.length);
  return [
    section(
      "Simulation",
      idle &&
        h(
          "p",
          { class: "empty" },
          "Nothing moves yet. In Author, make a body of particles; or say above what the object is made of.",
        ),
      slider(
        "Gravity",
        -state.gravity[1],
        [0, 20, 0.1],
        (value, done) => done && gravity(value),
        (value) => `${value.toFixed(1)} m/s²`,
      ),
      !met &&
        !idle &&
        h("p", { class: "note" }, "Nothing is below: tick Ground, or things fall out of the picture."),
      apart &&
        h(
          "p",
          { class: "note" },
          "Particles do not meet flesh, jelly, cloth and rigid objects: all meet the ground and obstacles.",
        ),
      solid > 1 &&
        h(
          "p",
          { class: "note" },
          "Flesh, jelly, cloth and rigid objects meet each other if their boxes are apart at the start.",
        ),
      check("Ground", state.ground !== null, (on) => app.send({ type: "ground", on })),
      state.ground !== null &&
        numberField(
          "Height of the ground",
          state.ground,
          (value) =>
            app.send({ type: "set", path: ["objects", GROUND, "mesh", "point"], value: [0, value, 0] }),
          "m",
        ),
      numberField("Frames", state.frames.end - state.frames.start + 1, (value) =>
        app.send({ type: "set", path: ["frames", "count"], value: Math.round(value) }),
      ),
      numberField(
        "Frames a second",
        state.frames.rate,
        (value) => app.send({ type: "set", path: ["frames", "rate"], value }),
        "1/s",
      ),
      simulated.length > 0 && h("p", { class: "note" }, "While it runs, drag objects with the mouse."),
      h("div", { class: "readout" }, h("span", { id: "readout" })),
    ),
    section("Show", ...showing(app)),
  ];
}

export function runPanel(app: App): HTMLElement {
  const run = app.store.state!.run!;
  return section(
    run.growing ? "Run, still under way" : "Finished run",
    h("p", {}, run.folder),
    h("p", { class: "note" }, `Frames ${run.first} to ${run.last}, ${run.rate} a second`),
    button("Back to the scene", () => app.send({ type: "close_run" }), { primary: true, id: "Close run" }),
  );
}
