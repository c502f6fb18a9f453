/** What the server has sent: arrays, the state and the clock. Listeners are called when any of it changes. */

import type { Clock, Command, Exists, Files, Note, State } from "./messages";
import { decodeUpdate, parseReply, type Numbers, type Reply } from "./wire";

export type { Numbers } from "./wire";

/** How long the server works on a command before the page says so [ms]. */
const PATIENCE = 400;
/** How long the page waits before it tries to connect again [ms]. */
const RECONNECT_INTERVAL = 1000;

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

  constructor(
    private url: string,
    private quantise: boolean,
  ) {
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
    return this.busy && performance.now() - this.since > PATIENCE;
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
    socket.onmessage = (event: MessageEvent<unknown>) => {
      if (typeof event.data === "string") this.hear(parseReply(event.data));
      else if (event.data instanceof ArrayBuffer) this.apply(event.data);
    };
    socket.onclose = () => {
      if (this.connected) this.onConnection(false);
      this.connected = false;
      setTimeout(() => this.connect(), RECONNECT_INTERVAL);
    };
  }

  private hear(message: Reply): void {
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
    const { header, arrays } = decodeUpdate(buffer);
    for (const { object, channel, data, shape } of arrays) {
      const channels = this.arrays.get(object) ?? new Map<string, Block>();
      this.arrays.set(object, channels);
      if (data === null) channels.delete(channel);
      else channels.set(channel, { data, shape, version: ++this.count });
    }
    const changed = arrays.map(({ object, channel }): [string, string] => [object, channel]);
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
        setTimeout(() => {
          throw error;
        }, 0);
      }
    }
    // The next may come once this one is on the screen, or at once if nobody looks.
    const ack = () => this.send({ type: "ack", number: header.number });
    if (document.hidden) ack();
    else requestAnimationFrame(ack);
  }
}
