/** What the mouse does in the picture: the left button uses the tool, the right one turns the view. */

import * as THREE from "three";
import { App, BRUSHES, SELECTORS } from "./app";
import { GROUND, type Command } from "./messages";
import type { Vector } from "./tables";
import type { Hit } from "./view";

const vector = (v: THREE.Vector3): Vector => [v.x, v.y, v.z];

/** A drag that is under way. */
interface Drag {
  move(event: PointerEvent): void;
  up(event: PointerEvent): void;
  /** As if it had not begun; what cannot be taken back goes on. */
  cancel?(): void;
}

/** Pixels that the mouse may tremble in a click. */
const TREMBLE = 4;

export class Tools {
  private drag: Drag | null = null;
  private canvas: HTMLCanvasElement;
  private pressed: [number, number] = [0, 0];
  /** A move that waits until the server has dealt with the one before. */
  private later: (() => void) | null = null;

  constructor(
    private app: App,
    private overlay: SVGSVGElement,
  ) {
    this.canvas = app.view.renderer.domElement;
    this.canvas.addEventListener("pointerdown", (event) => this.down(event), { capture: true });
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    this.canvas.addEventListener("pointerup", (event) => this.up(event));
    this.canvas.addEventListener("pointercancel", (event) => this.up(event));
    this.canvas.addEventListener("pointerleave", () => app.view.moveCursor(null, 1));
    this.canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    app.view.controls.mouseButtons = {
      LEFT: THREE.MOUSE.ROTATE,
      MIDDLE: THREE.MOUSE.PAN,
      RIGHT: THREE.MOUSE.ROTATE,
    };
    this.canvas.addEventListener("click", (event) => this.choose(event));
    app.store.onDone = () => this.free();
  }

  /** Whether the mouse is at work in the picture. */
  get dragging(): boolean {
    return this.drag !== null;
  }

  cancel(): void {
    const drag = this.drag;
    if (!drag?.cancel) return;
    this.drag = this.later = null;
    drag.cancel();
  }

  private still(event: MouseEvent): boolean {
    return Math.hypot(event.clientX - this.pressed[0], event.clientY - this.pressed[1]) <= TREMBLE;
  }

  /** Send a move, or keep it until the server has answered the last one. */
  private stream(send: () => void): void {
    if (this.app.store.busy) this.later = send;
    else send();
  }

  private free(): void {
    const later = this.later;
    this.later = null;
    if (later) this.stream(later);
  }

  /** A click that was no turn of the view chooses the object under it. */
  private choose(event: MouseEvent): void {
    const { app } = this;
    if (app.mode !== "View" || app.store.state?.run || !this.still(event)) return;
    const hit = app.view.pick(event.clientX, event.clientY);
    if (hit && hit.object !== app.active && hit.object !== GROUND) app.choose(hit.object);
  }

  private down(event: PointerEvent): void {
    this.later = null;
    this.pressed = [event.clientX, event.clientY];
    if (event.button !== 0 || event.altKey || this.app.store.state?.run) return;
    this.drag = this.begin(event);
    if (!this.drag) return;
    event.stopImmediatePropagation();
    this.canvas.setPointerCapture(event.pointerId);
  }

  private move(event: PointerEvent): void {
    if (this.drag) this.drag.move(event);
    else if (event.buttons === 0) this.hover(event);
  }

  private up(event: PointerEvent): void {
    if (!this.drag || event.button > 0) return;
    const drag = this.drag;
    this.drag = null;
    this.later = null;
    drag.up(event);
  }

  private hover(event: PointerEvent): void {
    const { app } = this,
      { tool } = app;
    const brush = BRUSHES.includes(tool) || tool === "Place" || tool === "Add handle";
    if (brush && app.active) {
      const small = tool === "Place" || tool === "Add handle";
      app.view.moveCursor(
        app.view.pick(event.clientX, event.clientY, app.active),
        small ? 0.02 * app.size : app.radius,
      );
    } else app.view.moveCursor(null, 1);
    const over = tool === "Drag handle" && this.handleAt(event) !== null;
    this.canvas.style.cursor =
      over || (tool === "Grab" && app.simulated.length)
        ? "grab"
        : brush || SELECTORS.includes(tool)
          ? "crosshair"
          : "default";
  }

  private handleAt(event: PointerEvent): number | null {
    return this.app.view.pickPoint(event.clientX, event.clientY, this.app.active, "handles");
  }

  private begin(event: PointerEvent): Drag | null {
    const { app } = this,
      { tool } = app;
    if (app.mode === "Author" || app.mode === "Glue") {
      if (app.store.clock.status === "playing") {
        app.send({ type: "pause" });
        app.say("Paused: objects are edited as they are at rest.");
        return null;
      }
    }
    if (SELECTORS.includes(tool) && app.active) return this.select(event, tool === "Lasso");
    if (app.mode === "Pose") return this.pose(event);
    if (tool === "Grab") return this.grab(event);
    if (tool === "Edge") return this.edge(event);
    const hit = app.active ? app.view.pick(event.clientX, event.clientY, app.active) : null;
    if (!hit) return null;
    if (tool === "Place") return this.click(() => this.place(hit));
    if (BRUSHES.includes(tool)) return this.brush(event, hit);
    return null;
  }

  private click(action: () => void): Drag {
    return { move: () => {}, up: action, cancel: () => {} };
  }

  private place(hit: Hit): void {
    const { app } = this;
    const at = app.settings.middle ? hit.point.clone().add(hit.exit).multiplyScalar(0.5) : hit.point;
    app.send({
      type: "place",
      object: app.active,
      position: vector(at),
      radius: 0.5 * app.settings.spacing * app.size,
    });
  }

  /** A stroke: places along it are sent as fast as the server takes them. */
  private brush(event: PointerEvent, first: Hit): Drag {
    const { app } = this,
      stroke = app.newStroke();
    let waiting: Vector[] = [],
      last: THREE.Vector3 | null = null,
      from = [event.clientX, event.clientY];
    const flush = () => {
      const centres = waiting;
      waiting = [];
      if (centres.length) app.send(this.brushed(centres, stroke));
    };
    const add = (hit: Hit | null) => {
      app.view.moveCursor(hit, app.radius);
      if (!hit || (last && hit.point.distanceTo(last) < 0.4 * app.radius)) return;
      last = hit.point;
      waiting.push(vector(hit.point));
      this.stream(flush);
    };
    /** All along the way of the mouse, which may jump. */
    const along = (moved: PointerEvent) => {
      const [x, y] = from,
        way = Math.hypot(moved.clientX - x, moved.clientY - y);
      const steps = Math.min(
        Math.max(Math.ceil(way / (0.4 * app.radius * app.view.pixels(last ?? first.point))), 1),
        64,
      );
      for (let k = 1; k <= steps; k++) {
        add(
          app.view.pick(
            x + ((moved.clientX - x) * k) / steps,
            y + ((moved.clientY - y) * k) / steps,
            app.active,
          ),
        );
      }
      from = [moved.clientX, moved.clientY];
    };
    add(first);
    return {
      move: (moved) => {
        const all = moved.getCoalescedEvents?.() ?? [];
        (all.length ? all : [moved]).forEach(along);
      },
      up: flush,
    };
  }

  private brushed(centres: Vector[], stroke: number): Command {
    const { app } = this,
      { settings, size } = app;
    const shared = { object: app.active, centres, radius: app.radius, stroke };
    switch (app.tool) {
      case "Spray":
        return { type: "spray", ...shared, spacing: settings.spacing * size };
      case "Erase":
        return { type: "erase", ...shared };
      case "Connect":
        return { type: "connect", ...shared, longest: settings.longest * size };
      case "Cut":
        return { type: "cut", ...shared };
      case "Pin":
        return { type: "pin", ...shared, pinned: settings.pin };
      default:
        return {
          type: "paint",
          ...shared,
          field: settings.field,
          value: settings.value,
          strength: settings.strength,
        };
    }
  }

  /** Two clicks on particles make an edge, or cut the one that is there. */
  private edge(event: PointerEvent): Drag | null {
    const { app } = this;
    const found = app.view.pickPoint(event.clientX, event.clientY, app.active, "particles");
    if (found === null) return null;
    return this.click(() => {
      if (app.first === null || app.first === found) {
        app.first = found;
        app.send({ type: "select", object: app.active, what: "particles", indices: [found] });
        return;
      }
      const edges = app.store.get(app.active, "edges")?.data ?? [],
        [a, b] = [app.first, found];
      let there = false;
      for (let k = 0; k < edges.length; k += 2) {
        there ||= (edges[k] === a && edges[k + 1] === b) || (edges[k] === b && edges[k + 1] === a);
      }
      app.first = null;
      app.send({ type: "connect_pair", object: app.active, pair: [a, b], cut: there });
    });
  }

  /** A rectangle or a lasso around particles, vertices or points. */
  private select(event: PointerEvent, lasso: boolean): Drag {
    const { app } = this;
    const what = app.mode === "Glue" ? "points" : app.settings.select;
    const start: [number, number] = [event.clientX, event.clientY];
    let outline: [number, number][] = [start];
    const box = this.overlay.getBoundingClientRect();
    const shape = document.createElementNS("http://www.w3.org/2000/svg", "polygon");
    shape.setAttribute("class", "lasso");
    this.overlay.append(shape);
    return {
      move: (moved) => {
        const here: [number, number] = [moved.clientX, moved.clientY];
        if (lasso) outline.push(here);
        else outline = [start, [here[0], start[1]], here, [start[0], here[1]]];
        shape.setAttribute("points", outline.map(([x, y]) => `${x - box.left},${y - box.top}`).join(" "));
      },
      up: (moved) => {
        shape.remove();
        const channel = what === "vertices" ? "rest" : what;
        const block = app.store.get(app.active, channel);
        if (!block) return;
        const how = moved.shiftKey ? "add" : moved.ctrlKey ? "remove" : "replace";
        const screen = app.view.project(block.data),
          indices: number[] = [];
        if (outline.length < 3) {
          const found = app.view.pickPoint(moved.clientX, moved.clientY, app.active, channel);
          if (found !== null) indices.push(found);
        }
        for (let k = 0; outline.length > 2 && k < block.shape[0]; k++) {
          if (within(screen[3 * k], screen[3 * k + 1], outline)) indices.push(k);
        }
        app.send({ type: "select", object: app.active, what, indices, how });
      },
      cancel: () => shape.remove(),
    };
  }

  private pose(event: PointerEvent): Drag | null {
    const { app } = this,
      found = this.handleAt(event);
    if (found !== null) return this.dragHandle(event, found);
    if (app.tool !== "Add handle") return null;
    const hit = app.view.pick(event.clientX, event.clientY, app.active);
    if (!hit) return null;
    return this.click(() =>
      app.send({
        type: "add_handle",
        object: app.active,
        position: vector(hit.point),
        mirror: app.settings.mirror || null,
      }),
    );
  }

  private dragHandle(event: PointerEvent, number: number): Drag {
    const { app } = this,
      object = app.active,
      name = app.object!.handles[number].name;
    if (event.shiftKey) {
      const rest = app.handles.filter((handle) => handle !== number);
      return this.click(() => app.chooseHandles(rest.length < app.handles.length ? rest : [...rest, number]));
    }
    app.chooseHandles([number]);
    const place = new THREE.Vector3().fromArray(app.store.get(object, "handles")!.data, 3 * number);
    const grip = app.view.onPlane(event.clientX, event.clientY, place).sub(place);
    const mirror = app.settings.mirror || null;
    /** Where it is dragged to; null as long as it is only chosen. */
    let position: Vector | null = null;
    const follow = (at: PointerEvent) => {
      if (position || !this.still(at))
        position = vector(app.view.onPlane(at.clientX, at.clientY, place).sub(grip));
    };
    const send = (done: boolean) =>
      position && app.send({ type: "drag_handle", object, handle: name, position, mirror, done });
    return {
      move: (at) => {
        follow(at);
        this.stream(() => send(false));
      },
      up: (at) => {
        follow(at);
        send(true);
      },
      cancel: () => {
        // What the server has been shown of it becomes an edit, which is taken back.
        if (!position) return;
        send(true);
        app.send({ type: "undo" });
      },
    };
  }

  private grab(event: PointerEvent): Drag | null {
    const { app } = this,
      hit = app.view.pick(event.clientX, event.clientY);
    if (!hit || !app.simulated.length || app.store.clock.status === "still") return null;
    app.send({ type: "grab", object: hit.object, position: vector(hit.point) });
    return {
      move: (at) => {
        const position = vector(app.view.onPlane(at.clientX, at.clientY, hit.point));
        this.stream(() => app.send({ type: "pull", position }));
      },
      up: () => app.send({ type: "let_go" }),
    };
  }
}

/** Whether a place is within an outline: a ray to the right crosses it an odd number of times. */
function within(x: number, y: number, outline: [number, number][]): boolean {
  let inside = false;
  for (let i = 0, j = outline.length - 1; i < outline.length; j = i++) {
    const [a, b] = outline[i],
      [c, d] = outline[j];
    if (b > y !== d > y && x < ((c - a) * (y - b)) / (d - b) + a) inside = !inside;
  }
  return inside;
}
