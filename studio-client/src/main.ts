/** The studio's page: layout, modes, hints and keys. */

import "./style.css";
import { App, type Mode } from "./app";
import { Dialogs } from "./dialogs";
import { button, h } from "./dom";
import { advice } from "./hints";
import { panel, showGaps } from "./panels";
import { Timeline } from "./timeline";
import { Tools } from "./tools";

const MODES: [Mode, string][] = [
  ["View", "look around"],
  ["Author", "bodies"],
  ["Pose", "handles"],
  ["Glue", "bind objects"],
  ["Play", "simulate"],
];

const canvas = h("main", {});
const overlay = document.createElementNS("http://www.w3.org/2000/svg", "svg");
const side = h("aside", {}),
  modes = h("nav", {}),
  bar = h("header", {});
const hint = h("span", { "data-id": "hint" }),
  work = h("span", { "data-id": "work" });
document.querySelector("#app")!.append(bar, modes, canvas, side);
const app = new App(canvas);
canvas.append(overlay);
const dialogs = new Dialogs(app, document.body),
  timeline = new Timeline(app);
const status = h("div", { class: "status" }, hint, work);
document.querySelector("#app")!.append(timeline.element, status);
const tools = new Tools(app, overlay);

function showBar(): void {
  const state = app.store.state,
    run = Boolean(state?.run);
  const name = state?.path || "new scene";
  bar.replaceChildren(
    h("strong", {}, "pointglue studio"),
    button("New", begin, { disabled: run || !app.objects.length }),
    button("Open…", () => dialogs.open(), { id: "Open" }),
    button("Save…", () => dialogs.save(), { id: "Save", disabled: run || !app.objects.length }),
    button("Undo", () => app.send({ type: "undo" }), { disabled: run || !state?.undo, title: "Ctrl+Z" }),
    button("Redo", () => app.send({ type: "redo" }), {
      disabled: run || !state?.redo,
      title: "Ctrl+Shift+Z",
    }),
    h(
      "span",
      { class: "path", "data-id": "path" },
      state ? `${name}${state.saved ? "" : " (not saved)"}` : "connecting…",
    ),
  );
  if (state?.found) {
    bar.append(
      h(
        "span",
        { class: "found" },
        "Unsaved work was found. ",
        button("Restore", () => app.send({ type: "restore", keep: true }), { primary: true }),
        button("Discard", discard),
      ),
    );
  }
}

function discard(): void {
  if (confirm("Throw away the unsaved work that was found? It cannot be brought back."))
    app.send({ type: "restore", keep: false });
}

function begin(): void {
  const lost = !app.store.state!.saved;
  if (!lost || confirm("The scene has not been saved. Begin a new one? (Undo brings it back.)"))
    app.send({ type: "new" });
}

function showModes(): void {
  const run = Boolean(app.store.state?.run);
  modes.replaceChildren(
    ...MODES.map(([mode, what]) => {
      const item = button("", () => app.setMode(mode), {
        id: `mode ${mode}`,
        active: app.mode === mode && !run,
        disabled: run,
      });
      item.append(h("b", {}, mode), h("small", {}, what));
      return item;
    }),
  );
}

/** What to do next, or why the simulation has stopped by itself. */
function showHint(): void {
  const { problem } = app.store.clock;
  hint.textContent = hint.title = problem || advice(app);
  status.classList.toggle("problem", Boolean(problem));
}

let pressed = false;
// The scroll bar is the panel itself; browsers do not report when it is released.
side.addEventListener("pointerdown", (event) => (pressed = event.target !== side));
window.addEventListener("pointerup", () => {
  if (pressed) setTimeout(() => ((pressed = false), showPanel()), 0);
});

/** The panel is made anew, unless somebody is just using it. */
function showPanel(): void {
  const focused = document.activeElement;
  const typing =
    focused instanceof HTMLInputElement &&
    focused.type !== "range" &&
    focused.type !== "checkbox" &&
    side.contains(focused);
  if (pressed || typing) return;
  const scroll = side.scrollTop;
  const id = focused instanceof HTMLElement && side.contains(focused) ? focused.dataset.id : undefined;
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
  if (readout)
    readout.textContent = `${milliseconds.toFixed(1)} ms per step, ${app.store.rate()} fps, ${status}`;
});
side.addEventListener("change", () => {
  if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
});

window.addEventListener("keydown", (event) => {
  if (
    event.target instanceof HTMLInputElement &&
    event.target.type !== "range" &&
    event.target.type !== "checkbox"
  )
    return;
  if (event.target instanceof HTMLSelectElement) return;
  const control = event.ctrlKey || event.metaKey,
    key = event.key.toLowerCase();
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
