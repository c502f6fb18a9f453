/** What the server has told: arrays, the state and the clock. Listeners are called when any of it changes. */

import type { Clock, Command, Done, Exists, Files, Note, State, Update } from "./messages";

export type Numbers = Float32Array | Uint32Array | Int32Array;

export interface Block {
  data: Numbers;
  shape: number[];
  /** Grows with every change. */
  version: number;
}

type Listener = (change: { state: boolean; arrays: [string, string][] }) => void;

export class Store {
  state: State | null = null;
  clock: Clock = { frame: 1, status: "still", milliseconds: 0, grabbed: false, problem: "" };
  connected = false;
  updates = 0;
  bytes = 0;
  private arrays = new Map<string, Map<string, Block>>();
  private listeners: Listener[] = [];
  private socket: WebSocket | null = null;
  private count = 0;
  private arrivals: number[] = [];
  /** Commands that the server has not dealt with yet, and since when it has had some. */
  private waiting = 0;
  private since = 0;

  onNote: (note: Note) => void = () => {};
  onFiles: (files: Files) => void = () => {};
  onExists: (file: Exists) => void = () => {};
  onDone: () => void = () => {};
  onConnection: (connected: boolean) => void = () => {};

  constructor(private url: string, private quantise: boolean) {
    this.connect();
  }

  listen(listener: Listener): void {
    this.listeners.push(listener);
  }

  get(object: string, channel: string): Block | undefined {
    return this.arrays.get(object)?.get(channel);
  }

  /** Updates in the last second. */
  rate(): number {
    const now = performance.now();
    this.arrivals = this.arrivals.filter((time) => now - time < 1000);
    return this.arrivals.length;
  }

  send(command: Command): void {
    if (this.socket?.readyState !== WebSocket.OPEN) return;
    this.socket.send(JSON.stringify(command));
    if (command.type === "ack" || command.type === "hello") return;
    if (!this.waiting++) this.since = performance.now();
  }

  /** Whether the server is at work on a command. */
  get busy(): boolean {
    return this.waiting > 0;
  }

  /** Whether it has been for a while. */
  get working(): boolean {
    return this.busy && performance.now() - this.since > 400;
  }

  private connect(): void {
    const socket = new WebSocket(this.url);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    socket.onopen = () => {
      this.arrays.clear();
      this.connected = true;
      this.waiting = 0;
      this.onConnection(true);
      this.send({ type: "hello", quantise: this.quantise });
    };
    socket.onmessage = (event) => {
      if (typeof event.data === "string") this.hear(JSON.parse(event.data) as Note | Files | Exists | Done);
      else this.apply(event.data as ArrayBuffer);
    };
    socket.onclose = () => {
      if (this.connected) this.onConnection(false);
      this.connected = false;
      setTimeout(() => this.connect(), 1000);
    };
  }

  private hear(message: Note | Files | Exists | Done): void {
    if (message.type === "note") this.onNote(message);
    else if (message.type === "files") this.onFiles(message);
    else if (message.type === "exists") this.onExists(message);
    else {
      this.waiting = Math.max(this.waiting - 1, 0);
      this.since = performance.now();
      this.onDone();
    }
  }

  private apply(buffer: ArrayBuffer): void {
    const length = new DataView(buffer).getUint32(0, true);
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length))) as Update;
    const changed: [string, string][] = [];
    for (const part of header.arrays) {
      changed.push([part.object, part.channel]);
      const channels = this.arrays.get(part.object) ?? new Map<string, Block>();
      this.arrays.set(part.object, channels);
      if (part.shape === null) {
        channels.delete(part.channel);
        continue;
      }
      const size = part.shape.reduce((a, b) => a * b, 1);
      const at = 4 + length + part.offset;
      let data: Numbers;
      if (part.dtype === "u2") {
        const raw = new Uint16Array(buffer, at, size);
        const low = part.low!, step = part.step!;
        data = new Float32Array(size);
        for (let k = 0; k < size; k++) data[k] = low[k % 3] + step[k % 3] * raw[k];
      } else {
        const kind = { f4: Float32Array, u4: Uint32Array, i4: Int32Array }[part.dtype];
        data = new kind(buffer, at, size);
      }
      channels.set(part.channel, { data, shape: part.shape, version: ++this.count });
    }
    this.clock = header.clock;
    if (header.state) this.state = header.state;
    this.updates++;
    this.bytes += buffer.byteLength;
    this.arrivals.push(performance.now());
    for (const listener of this.listeners) {
      try {
        listener({ state: header.state !== null, arrays: changed });
      } catch (error) {
        // What one part of the page cannot show must not keep the others from showing what they can.
        setTimeout(() => { throw error; }, 0);
      }
    }
    // The next may come once this one is on the screen, or at once if nobody looks.
    const ack = () => this.send({ type: "ack", number: header.number });
    if (document.hidden) ack();
    else requestAnimationFrame(ack);
  }
}
