/** The panel on the right: what can be done in the mode, with the object that is chosen. */

import type { App } from "../app";
import { authorPanel } from "./author";
import { gluePanel } from "./glue";
import { materialPanel, objectsPanel, placePanel, viewPanel } from "./objects";
import { playPanel, runPanel } from "./play";
import { posePanel } from "./pose";

export { showGaps } from "./glue";

export function panel(app: App): HTMLElement[] {
  if (app.store.state?.run) return [runPanel(app)];
  const parts = [objectsPanel(app)];
  const material = app.mode === "View" || app.mode === "Glue" ? materialPanel(app) : null;
  if (material) parts.push(material);
  if (app.mode === "View") parts.push(...placePanel(app), viewPanel(app));
  if (app.mode === "Author") parts.push(...authorPanel(app));
  if (app.mode === "Pose") parts.push(...posePanel(app));
  if (app.mode === "Glue") parts.push(...gluePanel(app));
  if (app.mode === "Play") parts.push(...playPanel(app));
  return parts;
}
