/** The bar at the bottom: play and step, the frames, and keys on them. */

import { button, h } from "./dom";
import type { Command, ObjectState } from "./messages";
import type { Store } from "./store";
import { textAt } from "./tables";

/** What the bar needs of the page. */
export interface TimelineSource {
  readonly store: Pick<Store, "state" | "clock" | "listen">;
  readonly object: ObjectState | undefined;
  send(command: Command): void;
  onChange(listener: () => void): void;
}

export class Timeline {
  readonly element: HTMLElement;
  private track = h("div", { class: "track", "data-id": "timeline" });
  private marks = h("div", { class: "marks" });
  private thumb = h("div", { class: "thumb" });
  private label = h("span", { class: "frame", "data-id": "frame" });
  private play: HTMLButtonElement;
  private dragging = false;

  constructor(private app: TimelineSource) {
    this.play = button("Play", () => this.toggle(), { id: "Play", title: "Space" });
    const step = button("Step", () => app.send({ type: "step" }), { id: "Step" });
    const reset = button("Reset", () => app.send({ type: "reset" }), { id: "Reset" });
    this.track.append(this.marks, this.thumb);
    this.element = h("footer", { class: "timeline" }, this.play, step, reset, this.track, this.label);
    this.track.addEventListener("pointerdown", (event) => {
      this.dragging = true;
      this.track.setPointerCapture(event.pointerId);
      this.scrub(event);
    });
    this.track.addEventListener("pointermove", (event) => this.dragging && this.scrub(event));
    this.track.addEventListener("pointerup", () => (this.dragging = false));
    app.store.listen(() => this.sync());
    app.onChange(() => this.sync());
  }

  toggle(): void {
    this.app.send({ type: this.app.store.clock.status === "playing" ? "pause" : "play" });
  }

  private range(): [number, number] {
    const state = this.app.store.state;
    if (!state) return [1, 2];
    return state.run ? [state.run.first, state.run.last] : [state.frames.start, state.frames.end];
  }

  private scrub(event: PointerEvent): void {
    const box = this.track.getBoundingClientRect(),
      [first, last] = this.range();
    const share = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
    this.app.send({ type: "scrub", frame: Math.round(first + share * (last - first)) });
  }

  private sync(): void {
    const { clock, state } = this.app.store,
      [first, last] = this.range();
    const place = (frame: number) =>
      `${(100 * Math.min(Math.max(frame - first, 0), last - first)) / Math.max(last - first, 1)}%`;
    this.thumb.style.left = place(clock.frame);
    this.label.textContent =
      clock.status === "building"
        ? "building…"
        : clock.frame > last
          ? `frame ${clock.frame}, after ${last}`
          : `frame ${clock.frame} of ${last}`;
    this.play.textContent = clock.status === "playing" ? "Pause" : "Play";
    const keys = new Map<string, [number, string]>();
    const add = (frame: number, what: string) => {
      // Keys outside of these frames cannot be shown among them.
      if (frame >= first && frame <= last) keys.set(`${what} ${frame}`, [frame, what]);
    };
    this.app.object?.handles.forEach((handle) => handle.keys.forEach((frame) => add(frame, "key")));
    for (const binding of state?.attach ?? []) {
      for (const what of ["attach", "release"]) {
        const moment = textAt(binding.table, what).match(/^frame (\d+)$/);
        if (moment) add(+moment[1], what);
      }
    }
    this.marks.replaceChildren(
      ...[...keys.values()].map(([frame, what]) => {
        const mark = h("i", { class: what, title: `${what} in frame ${frame}`, "data-key": String(frame) });
        mark.style.left = place(frame);
        return mark;
      }),
    );
  }
}
