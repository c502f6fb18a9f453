/** Updates as the server packs them, for tests. */

import type { ArrayPart, State, Update } from "../src/messages";

type Sent = Float32Array | Uint32Array | Int32Array | Uint16Array;
export type Part = [object: string, channel: string, data: Sent | null, shape: number[] | null];
type Box = { low?: readonly [number, number, number]; step?: readonly [number, number, number] };

export const STATE: State = {
  title: "",
  path: "",
  folder: "/home/somebody",
  saved: true,
  objects: [],
  attach: [],
  frames: { start: 1, end: 101, rate: 30 },
  gravity: [0, -9.81, 0],
  ground: null,
  selection: null,
  undo: 0,
  redo: 0,
  run: null,
  found: "",
  tables: {},
};

export function update(arrays: ArrayPart[], state: State | null = null): Update {
  const clock = { frame: 3, status: "playing", milliseconds: 1.5, grabbed: false, problem: "" } as const;
  return { type: "update", number: 5, clock, state, arrays };
}

function dtype(data: Sent): ArrayPart["dtype"] {
  if (data instanceof Float32Array) return "f4";
  if (data instanceof Uint32Array) return "u4";
  return data instanceof Int32Array ? "i4" : "u2";
}

/** The binary message of an update; `box` belongs to quantised arrays. */
export function packed(parts: Part[], box: Box = {}, header?: object): ArrayBuffer {
  const blocks: Uint8Array[] = [];
  let offset = 0;
  const arrays = parts.map(([object, channel, data, shape]): ArrayPart => {
    const from = offset;
    if (data) {
      const block = new Uint8Array(4 * Math.ceil(data.byteLength / 4));
      block.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
      blocks.push(block);
      offset += block.length;
    }
    const { low, step } = box;
    return {
      object,
      channel,
      dtype: data ? dtype(data) : "f4",
      shape,
      offset: from,
      low: low ? [...low] : null,
      step: step ? [...step] : null,
    };
  });
  let text = new TextEncoder().encode(JSON.stringify(header ?? update(arrays)));
  const padded = new Uint8Array(4 * Math.ceil(text.length / 4)).fill(32);
  padded.set(text);
  text = padded;
  const buffer = new ArrayBuffer(4 + text.length + offset);
  new DataView(buffer).setUint32(0, text.length, true);
  const bytes = new Uint8Array(buffer);
  bytes.set(text, 4);
  let at = 4 + text.length;
  for (const block of blocks) {
    bytes.set(block, at);
    at += block.length;
  }
  return buffer;
}
