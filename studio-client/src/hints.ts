/** What to do next: the hint in the bar at the bottom. */

import { SELECTORS, type App, type Tool } from "./app";
import { BINDABLE } from "./messages";

const BRUSH_HINTS: Partial<Record<Tool, string>> = {
  Spray: "Drag over the mesh to spray particles.",
  Place: "Click on the mesh to place one particle.",
  Erase: "Drag over particles to remove them.",
  Connect: "Drag over particles to join those nearer than the longest edge.",
  Cut: "Drag over edges to cut them.",
  Edge: "Click two particles: an edge joins them, or is cut if there is one.",
  Paint: "Drag over the body to paint. Colour by shows the values.",
  Pin: "Drag over particles to hold them where they are.",
};

/** The hint for the mode, the tool and the object that is chosen. */
export function advice(app: App): string {
  const { object, mode, tool } = app;
  if (!app.store.state) return "Connecting…";
  if (app.store.state.run) return "Play the frames, or drag along the timeline. “Back to the scene” returns.";
  if (!app.objects.length) return "Begin with Open… to load a mesh or a scene, or add a shape on the right.";
  if (mode === "Glue") {
    if (app.objects.length < 2) return "Glue binds two objects: open or add another one.";
    if (!BINDABLE.some((kind) => kind === object?.kind) || object?.kind === "animated")
      return `${app.active} cannot be bound yet: with “It is”, make it flesh, jelly, cloth or rigid.`;
    const chosen = app.store.get(app.active, "selected_points");
    if (!chosen)
      return `Drag around points of ${app.active} to select them. The right button turns the view.`;
    return "Choose the object to bind them to and how, and press Attach.";
  }
  if (SELECTORS.includes(tool))
    return "Drag around what to select. Shift adds, Ctrl removes. The right button turns the view.";
  switch (mode) {
    case "View":
      return "Drag to turn, wheel to zoom, middle button to move. Author makes a body, Pose places handles.";
    case "Author": {
      if (!object?.particles)
        return "“Make it for me” fills the mesh with particles; or drag over it to spray them yourself.";
      if (!object.edges) return "Now join the particles: choose Connect and drag over them.";
      const skinned = app.store.get(app.active, "links") !== undefined;
      const then = " Then Connect joins them, Fit ellipsoids shapes them, Skin lets the mesh follow.";
      const more = tool === "Spray" && !skinned ? then : "";
      return `${BRUSH_HINTS[tool] ?? ""}${more}${skinned ? " Press Play (Space) to try it." : ""}`;
    }
    case "Pose":
      if (object?.kind !== "handles") return "Choose a mesh with handles, or make this one so.";
      if (!object.handles.length)
        return "Click on the mesh to place the first handle; then a few more, also where it should stay.";
      if (object.handles.length < 3)
        return "Place a few more handles where the mesh should stay. Then drag one.";
      return (
        "Drag a handle: the mesh follows, and a key is set in this frame. " +
        "Shift-click chooses several for Pair and Chain."
      );
    case "Play":
      if (!app.simulated.length)
        return (
          "Play shows the keys of handles. To simulate, make a body in Author, " +
          "or say with “It is” what an object is made of."
        );
      if (app.store.clock.status === "still") return "Press Play (Space). Editing goes on while it runs.";
      return "Drag an object to pull it along. Reset returns to the first frame.";
  }
}
