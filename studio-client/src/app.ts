/** What the page itself knows: the mode, the tool, its settings. Everything else is the server's. */

import { GROUND, type Attach, type Command, type Export, type ObjectState, type Save } from "./messages";
import { Store } from "./store";
import { tableAt, textAt } from "./tables";
import { View } from "./view";
import type { ColorBy, Look } from "./visual";

export type Mode = "View" | "Author" | "Pose" | "Glue" | "Play";
export type Tool =
  | "Orbit"
  | "Spray"
  | "Place"
  | "Erase"
  | "Connect"
  | "Cut"
  | "Edge"
  | "Paint"
  | "Pin"
  | "Rectangle"
  | "Lasso"
  | "Add handle"
  | "Drag handle"
  | "Grab";

export const BRUSHES: Tool[] = ["Spray", "Erase", "Connect", "Cut", "Paint", "Pin"];
/** The tool that a mode begins with. */
const FIRST_TOOLS: Record<Mode, Tool> = {
  View: "Orbit",
  Author: "Spray",
  Pose: "Add handle",
  Glue: "Rectangle",
  Play: "Grab",
};
export const SELECTORS: Tool[] = ["Rectangle", "Lasso"];

export class App {
  readonly store: Store;
  readonly view: View;
  mode: Mode = "View";
  tool: Tool = "Orbit";
  active = "";
  /** Numbers of chosen handles, in the order in which they were chosen. */
  handles: number[] = [];
  /** The first particle of an edge that is being made. */
  first: number | null = null;
  settings = {
    brush: 0.08,
    spacing: 0.06,
    longest: 0.15,
    pin: true,
    see: false,
    field: "stiffness" as "stiffness" | "torsion",
    value: 0.3,
    strength: 1,
    middle: true,
    select: "particles" as "particles" | "vertices",
    mirror: "" as "" | "x" | "y" | "z",
    to: "",
    binding: "glue" as Attach["kind"],
    color: "plain" as ColorBy,
    clear: true,
    mesh: true,
    wire: false,
    particles: true,
    ellipsoids: false,
    edges: true,
  };
  private stroke = 0;
  private status = "still";
  private known = new Set<string>();
  private listeners: (() => void)[] = [];

  constructor(parent: HTMLElement) {
    const query = new URLSearchParams(location.search);
    const protocol = location.protocol === "https:" ? "wss" : "ws";
    const url = `${protocol}://${location.host}/socket?token=${encodeURIComponent(query.get("token") ?? "")}`;
    this.store = new Store(url, query.has("quantise"));
    this.view = new View(this.store, parent, this.look());
    this.store.listen((change) => {
      if (change.state) this.adjust();
      if (this.status !== this.store.clock.status) {
        this.status = this.store.clock.status;
        this.view.look = this.look();
      }
      this.view.sync();
      if (change.state) this.tell();
    });
  }

  onChange(listener: () => void): void {
    this.listeners.push(listener);
  }

  tell(): void {
    for (const listener of this.listeners) listener();
  }

  send(command: Command): void {
    this.store.send(command);
  }

  /** Write a file; over one that is there already only if somebody says so. */
  write(command: Save | Export): void {
    this.store.onExists = ({ path }) => {
      if (confirm(`${path} is there already. Replace it?`)) this.send({ ...command, replace: true });
    };
    this.send(command);
  }

  get object(): ObjectState | undefined {
    return this.store.state?.objects.find((object) => object.name === this.active);
  }

  /** Objects that are not the ground. */
  get objects(): ObjectState[] {
    const plane = (object: ObjectState) => textAt(tableAt(object.table, "mesh"), "shape") === "plane";
    return (this.store.state?.objects ?? []).filter((object) => object.name !== GROUND || !plane(object));
  }

  /** Objects that the simulation moves, and a hand can pull. */
  get simulated(): ObjectState[] {
    return this.objects.filter((object) => !["handles", "collider"].includes(object.kind));
  }

  newStroke(): number {
    return 1 + Math.floor(Math.random() * 2 ** 40);
  }

  /** The stroke of a slider: one from when it is taken to when it is let go of. */
  sliding(done: boolean): number {
    const stroke = this.stroke || this.newStroke();
    this.stroke = done ? 0 : stroke;
    return stroke;
  }

  say(text: string): void {
    this.store.onNote({ type: "note", level: "info", text });
  }

  setMode(mode: Mode): void {
    this.mode = mode;
    this.tool = FIRST_TOOLS[mode];
    if (mode === "Pose" && this.object?.handles.length) this.tool = "Drag handle";
    this.refresh();
  }

  setTool(tool: Tool): void {
    this.tool = tool;
    this.first = null;
    if (tool === "Paint") this.settings.color = this.settings.field;
    this.refresh();
  }

  choose(name: string): void {
    this.active = name;
    this.handles = [];
    this.first = null;
    this.refresh();
  }

  chooseHandles(handles: number[]): void {
    this.handles = handles;
    this.refresh();
  }

  /** Remove the chosen handles, as one edit. */
  removeHandles(): void {
    const object = this.active,
      stroke = this.newStroke();
    const names = this.handles.map((handle) => this.object!.handles[handle].name);
    for (const handle of names) this.send({ type: "remove_handle", object, handle, stroke });
  }

  set(changes: Partial<App["settings"]>): void {
    Object.assign(this.settings, changes);
    this.refresh();
  }

  /** Show the picture and the panels anew. */
  refresh(): void {
    this.view.look = this.look();
    for (const [name, visual] of this.view.visuals) {
      visual.highlighted = new Set(name === this.active && this.mode === "Pose" ? this.handles : []);
    }
    this.view.moveCursor(null, 1);
    this.view.showMirror(this.active, this.mode === "Pose" ? this.settings.mirror : "");
    this.view.sync();
    this.tell();
  }

  /** What is chosen may be gone; what is new is chosen. */
  private adjust(): void {
    const names = this.objects.map((object) => object.name),
      fresh = names.filter((name) => !this.known.has(name));
    this.known = new Set(names);
    if (fresh.length || !names.includes(this.active)) this.active = fresh.at(-1) ?? names.at(-1) ?? "";
    const count = this.object?.handles.length ?? 0;
    this.handles = this.handles.filter((handle) => handle < count);
    this.view.look = this.look();
  }

  private look(): Look {
    const { mesh, wire, particles, ellipsoids, edges, color, clear, see } = this.settings;
    // A finished run is looked at, whatever the mode.
    const mode = this.store.state?.run ? "Play" : this.mode;
    // Bodies are edited at rest, but what plays is seen to play.
    const rest = (mode === "Author" || mode === "Glue") && this.store.clock.status !== "playing";
    return {
      mesh,
      wire,
      ellipsoids,
      color,
      particles: particles && mode !== "Pose",
      edges: edges && mode !== "Pose",
      handles: mode === "Pose",
      points: mode === "Glue" && rest,
      bindings: mode === "Glue" || mode === "Play",
      clear: mode === "Play" ? see : clear && mode !== "Pose",
      rest,
      selected: rest,
    };
  }

  /** How large the chosen object is: what brushes and distances are shares of. */
  get size(): number {
    return this.view.sizeOf(this.active);
  }

  get radius(): number {
    return this.settings.brush * this.size;
  }
}
