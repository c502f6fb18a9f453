import { beforeEach, describe, expect, it } from "vitest";
import type { Command, ObjectState } from "../src/messages";
import type { Store } from "../src/store";
import { Timeline, type TimelineSource } from "../src/timeline";
import { STATE, update } from "./updates";

const OBJECT: ObjectState = {
  name: "bar",
  kind: "handles",
  table: {},
  color: "#808080",
  visible: true,
  vertices: 8,
  particles: 0,
  edges: 0,
  groups: 0,
  pinned: 0,
  handles: [{ name: "handle 1", keys: [1, 51, 200], link: "" }],
  links: [],
  edited: false,
};
const RELEASED = { points: 3, gap: 1, health: "good", problem: "" } as const;

let sent: Command[],
  changed: () => void,
  store: Pick<Store, "state" | "clock" | "listen">,
  timeline: Timeline;

beforeEach(() => {
  sent = [];
  store = { state: STATE, clock: { ...update([]).clock, status: "still" }, listen: () => {} };
  const source: TimelineSource = {
    store,
    object: OBJECT,
    send: (command) => sent.push(command),
    onChange: (listener) => (changed = listener),
  };
  timeline = new Timeline(source);
  changed();
});

function find(selector: string): HTMLElement {
  const found = timeline.element.querySelector<HTMLElement>(selector);
  if (!found) throw new Error(`there is no ${selector}`);
  return found;
}

const marks = () =>
  [...timeline.element.querySelectorAll<HTMLElement>(".marks i")].map((mark) => [
    mark.className,
    mark.dataset.key,
    mark.style.left,
  ]);

describe("Timeline", () => {
  it("shows the frame, and keys within the frames", () => {
    expect(find('[data-id="frame"]').textContent).toBe("frame 3 of 101");
    expect(find(".thumb").style.left).toBe("2%");
    expect(marks()).toEqual([
      ["key", "1", "0%"],
      ["key", "51", "50%"],
    ]);
  });

  it("shows when bindings begin and end, if that is a frame", () => {
    const attach = [
      { ...RELEASED, table: { attach: "frame 11", release: "frame 21" } },
      { ...RELEASED, table: { release: "0.5 s" } },
    ];
    store.state = { ...STATE, attach };
    changed();
    expect(marks().slice(2)).toEqual([
      ["attach", "11", "10%"],
      ["release", "21", "20%"],
    ]);
  });

  it("says what the simulation does", () => {
    store.clock = { ...store.clock, status: "building" };
    changed();
    expect(find('[data-id="frame"]').textContent).toBe("building…");
    store.clock = { ...store.clock, status: "playing", frame: 130 };
    changed();
    expect(find('[data-id="frame"]').textContent).toBe("frame 130, after 101");
    expect(find(".thumb").style.left).toBe("100%");
    expect(find('[data-id="Play"]').textContent).toBe("Pause");
  });

  it("has the frames of a run while one is played", () => {
    store.state = { ...STATE, run: { folder: "run", first: 3, last: 5, rate: 24, growing: false } };
    changed();
    expect(find('[data-id="frame"]').textContent).toBe("frame 3 of 5");
    expect(find(".thumb").style.left).toBe("0%");
  });

  it("plays, pauses, steps and resets", () => {
    find('[data-id="Play"]').click();
    store.clock = { ...store.clock, status: "playing" };
    find('[data-id="Play"]').click();
    find('[data-id="Step"]').click();
    find('[data-id="Reset"]').click();
    expect(sent.map(({ type }) => type)).toEqual(["play", "pause", "step", "reset"]);
  });

  it("goes to the frame under the mouse while the button is pressed", () => {
    const track = find('[data-id="timeline"]');
    track.getBoundingClientRect = () => new DOMRect(100, 0, 200, 10);
    track.setPointerCapture = () => {};
    const point = (type: string, clientX: number) =>
      track.dispatchEvent(new PointerEvent(type, { clientX, pointerId: 1 }));
    point("pointermove", 120);
    point("pointerdown", 200);
    point("pointermove", 1000);
    point("pointermove", 0);
    point("pointerup", 0);
    point("pointermove", 150);
    expect(sent).toEqual([51, 101, 1].map((frame) => ({ type: "scrub", frame })));
  });
});
