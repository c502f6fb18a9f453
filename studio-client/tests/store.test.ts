import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Store } from "../src/store";
import { FakeSocket } from "./sockets";
import { packed, STATE, update } from "./updates";

let store: Store;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "performance", "requestAnimationFrame"] });
  vi.stubGlobal("WebSocket", FakeSocket);
  store = new Store("ws://here/socket", true);
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe("Store", () => {
  it("says hello once it is connected, and not before", () => {
    store.send({ type: "play" });
    expect(FakeSocket.last.sent).toEqual([]);
    FakeSocket.last.open();
    expect(FakeSocket.last.sent).toEqual([{ type: "hello", quantise: true }]);
    expect(FakeSocket.last.binaryType).toBe("arraybuffer");
    expect(store.connected).toBe(true);
  });

  it("keeps arrays, with a version that grows, until they are gone", () => {
    FakeSocket.last.open();
    FakeSocket.last.receive(packed([["bar", "rest", new Float32Array([1, 2, 3]), [1, 3]]]));
    const first = store.get("bar", "rest");
    expect(first?.data).toEqual(new Float32Array([1, 2, 3]));
    FakeSocket.last.receive(packed([["bar", "rest", new Float32Array([4, 5, 6]), [1, 3]]]));
    expect(store.get("bar", "rest")?.version).toBeGreaterThan(first?.version ?? Infinity);
    FakeSocket.last.receive(packed([["bar", "rest", null, null]]));
    expect(store.get("bar", "rest")).toBeUndefined();
    expect(store.get("other", "rest")).toBeUndefined();
  });

  it("tells listeners what has changed, even if one of them fails", () => {
    const heard: unknown[] = [];
    store.listen(() => {
      throw new Error("cannot be shown");
    });
    store.listen((change) => heard.push(change));
    FakeSocket.last.open();
    FakeSocket.last.receive(packed([["bar", "rest", new Float32Array(3), [1, 3]]]));
    FakeSocket.last.receive(packed([], {}, update([], STATE)));
    expect(heard).toEqual([
      { state: false, arrays: [["bar", "rest"]] },
      { state: true, arrays: [] },
    ]);
    expect(store.state).toEqual(STATE);
    expect(store.clock.frame).toBe(3);
    expect(() => vi.runAllTimers()).toThrow("cannot be shown");
  });

  it("acknowledges an update once it is on the screen", () => {
    FakeSocket.last.open();
    FakeSocket.last.receive(packed([]));
    expect(FakeSocket.last.types()).toEqual(["hello"]);
    vi.advanceTimersByTime(50);
    expect(FakeSocket.last.sent.at(-1)).toEqual({ type: "ack", number: 5 });
  });

  it("is busy until every command is done, and says so after a while", () => {
    FakeSocket.last.open();
    expect(store.busy).toBe(false);
    store.send({ type: "undo" });
    store.send({ type: "redo" });
    FakeSocket.last.receive('{"type": "done"}');
    expect([store.busy, store.working]).toEqual([true, false]);
    vi.advanceTimersByTime(1000);
    expect(store.working).toBe(true);
    FakeSocket.last.receive('{"type": "done"}');
    FakeSocket.last.receive('{"type": "done"}');
    expect([store.busy, store.working]).toEqual([false, false]);
  });

  it("hands replies on by their type", () => {
    const heard: unknown[] = [];
    store.onNote = (note) => heard.push(note.text);
    store.onExists = (file) => heard.push(file.path);
    store.onFiles = (files) => heard.push(files.folder);
    store.onDone = () => heard.push("done");
    FakeSocket.last.open();
    FakeSocket.last.receive('{"type": "note", "level": "info", "text": "Saved"}');
    FakeSocket.last.receive('{"type": "exists", "path": "a.ply"}');
    FakeSocket.last.receive('{"type": "files", "folder": "deep", "entries": []}');
    FakeSocket.last.receive('{"type": "done"}');
    expect(heard).toEqual(["Saved", "a.ply", "deep", "done"]);
  });

  it("connects again, with nothing of what it had", () => {
    const connections: boolean[] = [];
    store.onConnection = (connected) => connections.push(connected);
    const first = FakeSocket.last;
    first.open();
    first.receive(packed([["bar", "rest", new Float32Array(3), [1, 3]]]));
    first.close();
    expect(store.connected).toBe(false);
    vi.advanceTimersByTime(1500);
    expect(FakeSocket.last).not.toBe(first);
    FakeSocket.last.open();
    expect(store.get("bar", "rest")).toBeUndefined();
    expect(connections).toEqual([true, false, true]);
  });

  it("counts the updates of the last second", () => {
    FakeSocket.last.open();
    for (let k = 0; k < 3; k++) FakeSocket.last.receive(packed([]));
    expect([store.rate(), store.updates]).toEqual([3, 3]);
    vi.advanceTimersByTime(1100);
    expect([store.rate(), store.updates]).toEqual([0, 3]);
  });
});
