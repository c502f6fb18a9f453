import { describe, expect, it } from "vitest";
import { decodeUpdate, parseReply } from "../src/wire";
import { packed, update } from "./updates";

describe("decodeUpdate", () => {
  it("reads arrays of every type", () => {
    const { header, arrays } = decodeUpdate(
      packed([
        ["bar", "rest", new Float32Array([1, 2.5, -3]), [1, 3]],
        ["bar", "faces", new Uint32Array([0, 1, 4000000000]), [1, 3]],
        ["bar", "group", new Int32Array([-1, 7]), [2]],
      ]),
    );
    expect(header.number).toBe(5);
    expect(arrays.map(({ channel }) => channel)).toEqual(["rest", "faces", "group"]);
    expect(arrays[0].data).toEqual(new Float32Array([1, 2.5, -3]));
    expect(arrays[1].data).toEqual(new Uint32Array([0, 1, 4000000000]));
    expect(arrays[2].data).toEqual(new Int32Array([-1, 7]));
    expect(arrays[0].shape).toEqual([1, 3]);
  });

  it("restores quantised positions within their box", () => {
    const raw = new Uint16Array([0, 65535, 2, 1, 0, 0]);
    const box = { low: [-1, 0, 10] as const, step: [0.5, 0.25, 2] as const };
    const { arrays } = decodeUpdate(packed([["bar", "vertices", raw, [2, 3]]], box));
    expect(arrays[0].data).toEqual(new Float32Array([-1, 0.25 * 65535, 14, -0.5, 0, 10]));
  });

  it("tells which arrays are gone", () => {
    const { arrays } = decodeUpdate(packed([["bar", "vertices", null, null]]));
    expect(arrays).toEqual([{ object: "bar", channel: "vertices", data: null, shape: [] }]);
  });

  it("refuses quantised positions without a box", () => {
    expect(() => decodeUpdate(packed([["bar", "rest", new Uint16Array(3), [1, 3]]]))).toThrow("corner");
  });

  it("refuses what is no update", () => {
    expect(() => decodeUpdate(packed([], {}, { ...update([]), type: "note" }))).toThrow("no update");
  });
});

describe("parseReply", () => {
  it("reads replies that the page knows, and refuses others", () => {
    expect(parseReply('{"type": "done"}')).toEqual({ type: "done" });
    expect(parseReply('{"type": "exists", "path": "a.ply"}')).toEqual({ type: "exists", path: "a.ply" });
    for (const text of ['{"type": "update"}', '{"level": "info"}', "[1]", "null"]) {
      expect(() => parseReply(text)).toThrow("no reply");
    }
  });
});
