// Made by `python -m pointglue.studio.protocol.typescript`; do not edit.

export const GROUND = "ground" as const;
export const BINDABLE = ["flesh", "cloth", "jelly", "rigid", "animated"] as const;
export const FAIR_GAP = 0.2 as const;
export const POOR_GAP = 0.02 as const;
export const SHAPES = ["box", "sphere", "sheet", "octopus"] as const;
export const DEFAULTS = {
  "falloff": 1.0,
  "stretch": 0.0,
  "distance": "inside",
  "parents": 8,
  "clothStretch": 500.0,
  "density": {
    "flesh": 1000.0,
    "cloth": 0.2,
    "jelly": 1000.0,
    "rigid": 1000.0
  }
} as const;

/** Ask for updates, with positions as 32-bit numbers or quantised to 16 bits. */
export interface Hello {
  type: "hello";
  quantise?: boolean;
}

/** An update has been shown; the next may come. */
export interface Ack {
  type: "ack";
  number: number;
}

/** Ask for what is in a folder below the working directory. */
export interface ListFiles {
  type: "list_files";
  folder?: string;
}

/** Open a file: a mesh is added to the scene, a scene replaces it, and a folder with frames is played. */
export interface Open {
  type: "open";
  path: string;
}

/** Write the scene; over another file only to `replace` it. */
export interface Save {
  type: "save";
  path: string;
  replace?: boolean;
}

/** Begin with an empty scene. */
export interface New {
  stroke?: number;
  type: "new";
}

/** Open or remove the scene of a session that did not end well. */
export interface Restore {
  type: "restore";
  keep: boolean;
}

/** Take back the last edit. */
export interface Undo {
  type: "undo";
}

/** Take back the last undo. */
export interface Redo {
  type: "redo";
}

/** Change a key of the scene file, such as ["objects", "horse", "falloff"]; null removes it. */
export interface Set {
  stroke?: number;
  type: "set";
  path: (string | number)[];
  value?: unknown;
}

/** Add a simple object. */
export interface AddShape {
  stroke?: number;
  type: "add_shape";
  shape: "box" | "sphere" | "sheet" | "octopus";
}

/** Change the kind of an object: a mesh with handles, soft flesh, cloth... */
export interface SetKind {
  stroke?: number;
  type: "set_kind";
  object: string;
  kind: "handles" | "particles" | "flesh" | "cloth" | "jelly" | "rigid" | "collider";
}

/** Give an object another name. */
export interface Rename {
  stroke?: number;
  type: "rename";
  object: string;
  name: string;
}

/** Scale and turn an object about its centre (degrees about x, then y, then z), then shift it [m].

    Its handles and their keys, or its particles, move with it. */
export interface Move {
  stroke?: number;
  type: "move";
  object: string;
  rotate?: [number, number, number];
  translate?: [number, number, number];
  scale?: number;
}

/** Remove an object and all its bindings. */
export interface Remove {
  stroke?: number;
  type: "remove";
  object: string;
}

/** Add a ground below everything, or remove it. */
export interface Ground {
  stroke?: number;
  type: "ground";
  on: boolean;
}

/** Choose particles or vertices of an object by their numbers. */
export interface Select {
  stroke?: number;
  type: "select";
  object: string;
  what: "particles" | "vertices" | "points" | "handles";
  indices: number[];
  how?: "replace" | "add" | "remove";
}

/** Make a whole body from the mesh. */
export interface Make {
  stroke?: number;
  type: "make";
  object: string;
  spacing?: number | null;
  placement?: "surface" | "volume" | "skeleton" | null;
}

/** Add particles on the surface under the brush. */
export interface Spray {
  stroke?: number;
  object: string;
  centres?: ([number, number, number])[];
  radius?: number;
  type: "spray";
  spacing: number;
}

/** Add one particle. */
export interface Place {
  stroke?: number;
  type: "place";
  object: string;
  position: [number, number, number];
  radius: number;
}

/** Remove particles. */
export interface Erase {
  stroke?: number;
  object: string;
  centres?: ([number, number, number])[];
  radius?: number;
  type: "erase";
}

/** Connect particles under the brush closer than `longest`, or all that are selected. */
export interface Connect {
  stroke?: number;
  object: string;
  centres?: ([number, number, number])[];
  radius?: number;
  type: "connect";
  longest?: number | null;
}

/** Add or remove a single edge. */
export interface ConnectPair {
  stroke?: number;
  type: "connect_pair";
  object: string;
  pair: [number, number];
  cut?: boolean;
}

/** Remove the edges under the brush, or between selected particles. */
export interface Cut {
  stroke?: number;
  object: string;
  centres?: ([number, number, number])[];
  radius?: number;
  type: "cut";
}

/** Move a property towards a value; `whole`: of the whole body, whatever the brush and the selection. */
export interface Paint {
  stroke?: number;
  object: string;
  centres?: ([number, number, number])[];
  radius?: number;
  type: "paint";
  field: "stiffness" | "torsion" | "stretch";
  value: number;
  strength?: number;
  whole?: boolean;
}

/** Pin particles or points, or free them. */
export interface Pin {
  stroke?: number;
  object: string;
  centres?: ([number, number, number])[];
  radius?: number;
  type: "pin";
  pinned?: boolean;
}

/** Make the selected particles one rigid group, or dissolve the groups that they are in. */
export interface Group {
  stroke?: number;
  type: "group";
  object: string;
  loosen?: boolean;
}

/** Give particles the ellipsoids that reach the surface around them. */
export interface Fit {
  stroke?: number;
  type: "fit";
  object: string;
  aspect?: number;
}

/** Let the mesh follow the particles; `selected`: selected vertices, selected particles only. */
export interface Skin {
  stroke?: number;
  type: "skin";
  object: string;
  selected?: boolean;
}

/** Add a handle at a position on the mesh as it is shown. */
export interface AddHandle {
  stroke?: number;
  type: "add_handle";
  object: string;
  position: [number, number, number];
  mirror?: "x" | "y" | "z" | null;
}

/** Remove a handle. */
export interface RemoveHandle {
  stroke?: number;
  type: "remove_handle";
  object: string;
  handle: string;
}

/** Move a handle; once it is released, its position is a key of the frame that is shown. */
export interface DragHandle {
  type: "drag_handle";
  object: string;
  handle: string;
  position: [number, number, number];
  mirror?: "x" | "y" | "z" | null;
  done?: boolean;
}

/** Link handles to one rigid group or to a chain of bones, or unlink them. */
export interface Link {
  stroke?: number;
  type: "link";
  object: string;
  handles: string[];
  how: "group" | "chain" | "none";
}

/** Set or remove a key of all handles of an object at the frame that is shown. */
export interface Key {
  stroke?: number;
  type: "key";
  object: string;
  remove?: boolean;
}

/** Show a frame. */
export interface Scrub {
  type: "scrub";
  frame: number;
}

/** Write the mesh of an object as it is shown, or in all frames. */
export interface Export {
  type: "export";
  object: string;
  path: string;
  animation?: boolean;
  replace?: boolean;
}

/** Bind the selected points of an object to another one; a joint is at their mean. */
export interface Attach {
  stroke?: number;
  type: "attach";
  object: string;
  to: string;
  kind: "glue" | "spring" | "ball" | "hinge" | "weld" | "prismatic" | "cylindrical" | "planar";
}

/** Remove a binding. */
export interface Detach {
  stroke?: number;
  type: "detach";
  number: number;
}

/** Let a binding begin or end at the frame that is shown, or no longer begin or end. */
export interface AttachKey {
  stroke?: number;
  type: "attach_key";
  number: number;
  what: "attach" | "release";
  remove?: boolean;
}

/** Run the simulation, or the frames of a finished one. */
export interface Play {
  type: "play";
}

/** Stop at the current frame. */
export interface Pause {
  type: "pause";
}

/** Go to the next frame. */
export interface Step {
  type: "step";
}

/** Return to the first frame. */
export interface Reset {
  type: "reset";
}

/** Grab an object of the simulation at a position. */
export interface Grab {
  type: "grab";
  object: string;
  position: [number, number, number];
}

/** Pull what was grabbed to a position. */
export interface Pull {
  type: "pull";
  position: [number, number, number];
}

/** Release what was grabbed. */
export interface LetGo {
  type: "let_go";
}

/** Return from the frames of a run to the scene. */
export interface CloseRun {
  type: "close_run";
}

export type Command =
  | Hello
  | Ack
  | ListFiles
  | Open
  | Save
  | New
  | Restore
  | Undo
  | Redo
  | Set
  | AddShape
  | SetKind
  | Rename
  | Move
  | Remove
  | Ground
  | Select
  | Make
  | Spray
  | Place
  | Erase
  | Connect
  | ConnectPair
  | Cut
  | Paint
  | Pin
  | Group
  | Fit
  | Skin
  | AddHandle
  | RemoveHandle
  | DragHandle
  | Link
  | Key
  | Scrub
  | Export
  | Attach
  | Detach
  | AttachKey
  | Play
  | Pause
  | Step
  | Reset
  | Grab
  | Pull
  | LetGo
  | CloseRun;

/** A handle; `keys` are frames, and `link` names the chain or group that it belongs to. */
export interface HandleState {
  name: string;
  keys: number[];
  link: string;
}

/** What the page knows of an object besides its arrays. */
export interface ObjectState {
  name: string;
  kind: string;
  table: Record<string, unknown>;
  color: string;
  visible: boolean;
  vertices: number;
  particles: number;
  edges: number;
  groups: number;
  pinned: number;
  handles: HandleState[];
  links: number[][];
  edited: boolean;
}

/** A binding; `gap` says how well its least determined fit is: 2 at best, 0 for a line. */
export interface AttachState {
  table: Record<string, unknown>;
  points: number;
  gap: number | null;
  health: "good" | "fair" | "poor" | "broken";
  problem: string;
}

/** What is selected; an array has the numbers. */
export interface SelectionState {
  object: string;
  what: "particles" | "vertices" | "points" | "handles";
  count: number;
}

/** A run that is played; `growing`: it is still being computed. */
export interface RunState {
  folder: string;
  first: number;
  last: number;
  rate: number;
  growing: boolean;
}

/** All that the page shows besides arrays and the clock. */
export interface State {
  title: string;
  path: string;
  folder: string;
  saved: boolean;
  objects: ObjectState[];
  attach: AttachState[];
  frames: Record<string, number>;
  gravity: [number, number, number];
  ground: number | null;
  selection: SelectionState | null;
  undo: number;
  redo: number;
  run: RunState | null;
  found: string;
  tables: Record<string, unknown>;
}

/** What changes all the time. */
export interface Clock {
  frame: number;
  status: "still" | "building" | "playing" | "paused";
  milliseconds: number;
  grabbed: boolean;
  problem: string;
}

/** An array of an update; quantised ones are low + step * number. One without a shape is gone. */
export interface ArrayPart {
  object: string;
  channel: string;
  dtype: "f4" | "u4" | "u2" | "i4";
  shape: number[] | null;
  offset: number;
  low: [number, number, number] | null;
  step: [number, number, number] | null;
}

/** The header of a binary message. */
export interface Update {
  type: "update";
  number: number;
  clock: Clock;
  state: State | null;
  arrays: ArrayPart[];
}

/** A text for people: a problem, or that something was done. */
export interface Note {
  type: "note";
  level: "error" | "info";
  text: string;
}

/** A command has been carried out or refused. */
export interface Done {
  type: "done";
}

/** A file to be written exists already: the page asks, and sends the command again with `replace`. */
export interface Exists {
  type: "exists";
  path: string;
}

/** A file or folder. */
export interface FileEntry {
  name: string;
  kind: "folder" | "mesh" | "scene" | "run";
}

/** What is in a folder. */
export interface Files {
  type: "files";
  folder: string;
  entries: FileEntry[];
}
