/** The wire format: replies as JSON, and updates as a length, a header and the arrays that it names. */

import type { ArrayPart, Done, Exists, Files, Note, Update } from "./messages";

export type Numbers = Float32Array | Uint32Array | Int32Array;
export type Reply = Note | Files | Exists | Done;

/** An array of an update; `data` is null for one that is gone. */
export interface DecodedArray {
  object: string;
  channel: string;
  data: Numbers | null;
  shape: number[];
}

/** The reply in a text message. */
export function parseReply(text: string): Reply {
  const reply: unknown = JSON.parse(text);
  if (!isReply(reply)) throw new Error(`no reply that this page knows: ${text.slice(0, 100)}`);
  return reply;
}

/** The header and the arrays of a binary message. */
export function decodeUpdate(buffer: ArrayBuffer): { header: Update; arrays: DecodedArray[] } {
  const length = new DataView(buffer).getUint32(0, true);
  const header: unknown = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  if (!isUpdate(header)) throw new Error("no update that this page knows");
  const start = 4 + length;
  const arrays = header.arrays.map((part) => ({
    object: part.object,
    channel: part.channel,
    data: part.shape === null ? null : numbers(buffer, start + part.offset, part, part.shape),
    shape: part.shape ?? [],
  }));
  return { header, arrays };
}

function numbers(buffer: ArrayBuffer, start: number, part: ArrayPart, shape: number[]): Numbers {
  const size = shape.reduce((a, b) => a * b, 1);
  switch (part.dtype) {
    case "f4":
      return new Float32Array(buffer, start, size);
    case "u4":
      return new Uint32Array(buffer, start, size);
    case "i4":
      return new Int32Array(buffer, start, size);
    case "u2":
      return dequantised(new Uint16Array(buffer, start, size), part);
  }
}

/** Positions from 16-bit numbers within their box. */
function dequantised(raw: Uint16Array, { low, step }: ArrayPart): Float32Array {
  if (!low || !step) throw new Error("a quantised array needs the corner of its box and a step");
  const data = new Float32Array(raw.length);
  for (let k = 0; k < raw.length; k++) data[k] = low[k % 3] + step[k % 3] * raw[k];
  return data;
}

/** The type of a message, which the server has checked against the same definition. */
function typeOf(message: unknown): unknown {
  return typeof message === "object" && message !== null && "type" in message ? message.type : undefined;
}

function isReply(message: unknown): message is Reply {
  return ["note", "files", "exists", "done"].some((type) => type === typeOf(message));
}

function isUpdate(message: unknown): message is Update {
  return typeOf(message) === "update";
}
