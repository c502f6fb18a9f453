"""The arrays that pages show of the document, of its simulation, or of a run."""

from typing import Any

import numpy as np

from ..document.document import BINDABLE, Document
from ..edits import bindings, bodies
from ..edits.poses import Poses
from ..protocol.replies import AttachState
from ..protocol.wire import Replica
from .page_state import binding_state
from .playback import Playback
from .preview import Preview

__all__ = ["Display"]

# The channels of a body of particles, all of which end with it.
_BODY_CHANNELS = (
    "particles",
    "turns",
    "radii",
    "edges",
    "stiffness",
    "torsion",
    "gap",
    "group",
    "members",
    "member_ends",
    "pinned",
    "links",
    "weights",
)


class Display:
    """Writes to the replica what pages show; arrays that have not changed are left as they are.

    Parameters
    ----------
    replica : Replica
        The arrays that pages are sent.
    """

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self._run: Playback | None = None
        # What was last shown of each object, and the bindings of the tables that were last shown.
        self._sources: dict[str, tuple[Any, ...]] = {}
        self._bindings: tuple[Any, list[bindings.BindingView]] = (None, [])

    def show_run(self, run: Playback) -> None:
        """Show the frame of a run."""
        arrays = run.arrays() if run is self._run else {**run.rest_arrays(), **run.arrays()}
        self._run = run
        self.replica.keep({state.name for state in run.objects()})
        for (name, channel), array in arrays.items():
            self.replica.put(name, channel, array)

    def show_document(self, document: Document, preview: Preview | None, poses: Poses, frame: int) -> None:
        """Show the objects of the simulation if there is one, otherwise those of a frame of their handles."""
        put = self.replica.put
        if self._run is not None:
            self._run, self._sources, self._bindings = None, {}, (None, [])
        self.replica.keep({"", *document.objects})
        self._sources = {name: seen for name, seen in self._sources.items() if name in document.objects}
        running = preview.arrays() if preview is not None else {}
        for name, table in document.objects.items():
            self._put_rest(document, name)
            put(name, "handles", poses.handles(document, name, frame) if table.get("handles") else None)
            vertices = running.get((name, "vertices"))
            if vertices is None and table["kind"] == "handles" and preview is None:
                vertices = poses.vertices(document, name, frame)
            put(name, "vertices", vertices)
            for channel in ("particles_now", "turns_now"):
                put(name, channel, running.get((name, channel)))
            for what in ("particles", "vertices", "points"):
                chosen = None if document.selection is None else document.selection.of(name, what)
                put(name, f"selected_{what}", chosen if chosen is not None and len(chosen) else None)
        put("", "hand", running.get(("", "hand")))
        self._put_bindings(document, preview)

    def binding_states(self, document: Document) -> list[AttachState]:
        """Return what pages are told of the bindings of the document that is shown, at rest."""
        return [binding_state(document, k, view) for k, view in enumerate(self._bindings[1])]

    def _put_rest(self, document: Document, name: str) -> None:
        """Show an object at rest, if it has changed since it was last shown."""
        seen = (document.surface(name), document.particles(name), document.item(name))
        if not all(a is b for a, b in zip(self._sources.get(name, (0, 0, 0)), seen, strict=True)):
            self._sources[name] = seen
            for channel, array in _rest_arrays(document, name).items():
                self.replica.put(name, channel, array)

    def _put_bindings(self, document: Document, preview: Preview | None) -> None:
        """Show bindings where they are, and their gaps (k,) while the simulation runs, NaN for none.

        Bindings are computed anew if the tables of the document have changed.
        """
        put = self.replica.put
        if self._bindings[0] is not document.tables:
            views = [bindings.binding_view(document, k) for k in range(len(document.attach))]
            for k in range(len(views), len(self._bindings[1])):
                for channel in ("tie", "share"):
                    put("", f"{channel} {k}", None)
            self._bindings = (document.tables, views)
        views = self._bindings[1]
        for k, view in enumerate(views):
            active = preview is None or preview.binding_is_active(document.scene.attach[k])
            lines = view.lines if preview is None else view.lines_at(preview.points)
            put("", f"tie {k}", lines if active else None)
            put("", f"share {k}", view.shares if active else None)
        gaps = [] if preview is None else [view.gap(preview.points) for view in views]
        put("", "gaps", np.array([np.nan if gap is None else gap for gap in gaps]) if gaps else None)


def _rest_arrays(document: Document, name: str) -> dict[str, Any]:
    """Return the arrays of an object at rest by channel, None for those that it does not have."""
    surface, body = document.surface(name), document.particles(name)
    arrays: dict[str, Any] = dict.fromkeys(_BODY_CHANNELS)
    arrays["rest"] = None if surface is None else surface.vertices
    arrays["faces"] = None if surface is None else surface.faces.astype(np.uint32)
    bindable = document.item(name).kind in BINDABLE
    arrays["points"] = bindings.bindable_points(document, name) if bindable else None
    if body is not None:
        members, ends = bodies.group_members(body)
        arrays |= {
            "particles": body.positions,
            "turns": body.orientations,
            "radii": body.radii,
            "edges": body.edges.astype(np.uint32),
            "stiffness": body.stiffness,
            "torsion": body.torsion,
            "gap": bodies.neighbour_gaps(body),
            "group": bodies.first_groups(body),
            "members": members,
            "member_ends": ends,
            "pinned": body.pinned.astype(np.uint32),
            "links": None if body.visual is None else body.visual.links.astype(np.uint32),
            "weights": None if body.visual is None else body.visual.weights,
        }
    return arrays
