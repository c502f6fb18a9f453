/** The studio's page: layout, modes, hints and keys. */

import "./style.css";
import { App, SELECTORS, type Mode } from "./app";
import { Dialogs } from "./dialogs";
import { button, h } from "./dom";
import { panel, showGaps } from "./panels";
import { Timeline } from "./timeline";
import { Tools } from "./tools";

const MODES: [Mode, string][] = [
  ["View", "look around"], ["Author", "bodies"], ["Pose", "handles"], ["Glue", "tie objects"], ["Play", "simulate"],
];

const canvas = h("main", {});
const overlay = document.createElementNS("http://www.w3.org/2000/svg", "svg");
const side = h("aside", {}), modes = h("nav", {}), bar = h("header", {});
const hint = h("span", { "data-id": "hint" }), work = h("span", { "data-id": "work" });
document.querySelector("#app")!.append(bar, modes, canvas, side);
const app = new App(canvas);
canvas.append(overlay);
const dialogs = new Dialogs(app, document.body), timeline = new Timeline(app);
const status = h("div", { class: "status" }, hint, work);
document.querySelector("#app")!.append(timeline.element, status);
const tools = new Tools(app, overlay);

function showBar(): void {
  const state = app.store.state, run = Boolean(state?.run);
  const name = state?.path || "new scene";
  bar.replaceChildren(
    h("strong", {}, "pointglue studio"),
    button("New", begin, { disabled: run || !app.objects.length }),
    button("Open…", () => dialogs.open(), { id: "Open" }),
    button("Save…", () => dialogs.save(), { id: "Save", disabled: run || !app.objects.length }),
    button("Undo", () => app.send({ type: "undo" }), { disabled: run || !state?.undo, title: "Ctrl+Z" }),
    button("Redo", () => app.send({ type: "redo" }), { disabled: run || !state?.redo, title: "Ctrl+Shift+Z" }),
    h("span", { class: "path", "data-id": "path" }, state ? `${name}${state.saved ? "" : " (not saved)"}` : "connecting…"),
  );
  if (state?.found) {
    bar.append(h("span", { class: "found" }, "Unsaved work was found. ",
      button("Restore", () => app.send({ type: "restore", keep: true }), { primary: true }),
      button("Discard", discard)));
  }
}

function discard(): void {
  if (confirm("Throw away the unsaved work that was found? It cannot be brought back.")) app.send({ type: "restore", keep: false });
}

function begin(): void {
  const lost = !app.store.state!.saved;
  if (!lost || confirm("The scene has not been saved. Begin a new one? (Undo brings it back.)")) app.send({ type: "new" });
}

function showModes(): void {
  const run = Boolean(app.store.state?.run);
  modes.replaceChildren(...MODES.map(([mode, what]) => {
    const item = button("", () => app.setMode(mode), { id: `mode ${mode}`, active: app.mode === mode && !run, disabled: run });
    item.append(h("b", {}, mode), h("small", {}, what));
    return item;
  }));
}

/** What to do next. */
function advice(): string {
  const { object, mode, tool } = app;
  if (!app.store.state) return "Connecting…";
  if (app.store.state.run) return "Play the frames, or drag along the timeline. “Back to the scene” returns.";
  if (!app.objects.length) return "Begin with Open… to load a mesh or a scene, or add a shape on the right.";
  if (mode === "Glue") {
    if (app.objects.length < 2) return "Glue ties two objects: open or add another one.";
    if (!["flesh", "cloth", "jelly", "rigid"].includes(object?.kind ?? "")) return `${app.active} cannot be tied yet: with “It is”, make it flesh, jelly, cloth or rigid.`;
    const chosen = app.store.get(app.active, "selected_points");
    if (!chosen) return `Drag around points of ${app.active} to select them. The right button turns the view.`;
    return "Choose the object to tie them to and how, and press Attach.";
  }
  if (SELECTORS.includes(tool)) return "Drag around what to select. Shift adds, Ctrl removes. The right button turns the view.";
  switch (mode) {
    case "View":
      return "Drag to turn, wheel to zoom, middle button to move. Author makes a body, Pose places handles.";
    case "Author": {
      if (!object?.particles) return "“Make it for me” fills the mesh with particles; or drag over the mesh to spray them yourself.";
      if (!object.edges) return "Now join the particles: choose Connect and drag over them.";
      const skinned = app.store.get(app.active, "links") !== undefined;
      return ({
        Spray: `Drag over the mesh to spray particles.${skinned ? "" : " Then Connect joins them, Fit ellipsoids shapes them, Skin lets the mesh follow."}`,
        Place: "Click on the mesh to place one particle.", Erase: "Drag over particles to remove them.",
        Connect: "Drag over particles to join those nearer than the longest edge.", Cut: "Drag over edges to cut them.",
        Edge: "Click two particles: an edge joins them, or is cut if there is one.",
        Paint: "Drag over the body to paint. Colour by shows the values.", Pin: "Drag over particles to hold them where they are.",
      }[tool as string] ?? "") + (skinned ? " Press Play (Space) to try it." : "");
    }
    case "Pose":
      if (object?.kind !== "handles") return "Choose a mesh with handles, or make this one so.";
      if (!object.handles.length) return "Click on the mesh to place the first handle; then a few more, also where it should stay.";
      if (object.handles.length < 3) return "Place a few more handles where the mesh should stay. Then drag one.";
      return "Drag a handle: the mesh follows, and a key is set in this frame. Shift-click chooses several for Pair and Chain.";
    case "Play":
      if (!app.simulated.length) return "Play shows the keys of handles. To simulate, make a body in Author, or say with “It is” what an object is made of.";
      if (app.store.clock.status === "still") return "Press Play (Space). Editing goes on while it runs.";
      return "Drag an object to pull it along. Reset returns to the first frame.";
  }
}

/** What to do next, or why the simulation has stopped by itself. */
function showHint(): void {
  const { problem } = app.store.clock;
  hint.textContent = hint.title = problem || advice();
  status.classList.toggle("problem", Boolean(problem));
}

let held = false;
// Of a scroll bar, which is the panel's own, the browser does not tell when it is let go of.
side.addEventListener("pointerdown", (event) => (held = event.target !== side));
window.addEventListener("pointerup", () => {
  if (held) setTimeout(() => ((held = false), showPanel()), 0);
});

/** The panel is made anew, unless somebody is just using it. */
function showPanel(): void {
  const focused = document.activeElement;
  const typing = focused instanceof HTMLInputElement && focused.type !== "range" && focused.type !== "checkbox" && side.contains(focused);
  if (held || typing) return;
  const scroll = side.scrollTop, id = side.contains(focused) ? (focused as HTMLElement).dataset.id : undefined;
  side.replaceChildren(...panel(app));
  side.scrollTop = scroll;
  if (id) side.querySelector<HTMLElement>(`[data-id="${CSS.escape(id)}"]`)?.focus();
}

function show(): void {
  showBar();
  showModes();
  showPanel();
  showHint();
}

app.onChange(show);
app.store.listen(() => {
  showHint();
  const readout = document.querySelector("#readout");
  showGaps(app);
  const { milliseconds, status } = app.store.clock;
  if (readout) readout.textContent = `${milliseconds.toFixed(1)} ms per step, ${app.store.rate()} fps, ${status}`;
});
side.addEventListener("change", () => (document.activeElement as HTMLElement | null)?.blur?.());

window.addEventListener("keydown", (event) => {
  if (event.target instanceof HTMLInputElement && event.target.type !== "range" && event.target.type !== "checkbox") return;
  if (event.target instanceof HTMLSelectElement) return;
  const control = event.ctrlKey || event.metaKey, key = event.key.toLowerCase();
  // A dialog has the keys for itself; a drag too, but what is pulled may be paused.
  if (document.querySelector("dialog[open]")) return;
  if (tools.dragging && !(key === " " && app.mode === "Play")) {
    if (key === "escape") tools.cancel();
    if (!["shift", "control", "alt", "meta"].includes(key)) event.preventDefault();
    return;
  }
  if (app.store.state?.run && (control || key === "delete") && key !== "o") return;
  if (control && key === "z") app.send({ type: event.shiftKey ? "redo" : "undo" });
  else if (control && key === "y") app.send({ type: "redo" });
  else if (control && key === "s") dialogs.save();
  else if (control && key === "o") dialogs.open();
  else if (control) return;
  else if (key === " ") timeline.toggle();
  else if (key === "f") app.view.frame(app.active);
  else if (key === "a") app.view.frame();
  else if (key === "delete" && app.mode === "Pose") app.removeHandles();
  else if (key === "delete" && app.mode === "Author") app.send({ type: "erase", object: app.active });
  else return;
  event.preventDefault();
});

setInterval(() => (work.textContent = app.store.working ? "working…" : ""), 200);
show();
// For tests, and for whoever is curious.
Object.assign(window, { studio: { app, tools } });
