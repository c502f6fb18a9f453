"""From the session to what pages show: arrays of the document, of its simulation, or of a run."""

from functools import partial
from typing import Any

import numpy as np

from ..document.document import Document
from ..edits import bindings as gluing
from ..edits.poses import Poses
from ..protocol.replies import AttachState
from ..protocol.wire import Replica
from .playback import Playback
from .preview import Preview
from .showing import plain, show_object

__all__ = ["Display"]


class Display:
    """Fills the replica; what has not changed since is left as it is."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self._run: Playback | None = None
        self._shown: dict[str, tuple[Any, ...]] = {}
        self._tied: tuple[Any, list[gluing.Tie]] = (None, [])

    def show_run(self, run: Playback) -> None:
        """The frame of a run."""
        arrays = run.arrays() if run is self._run else {**run.still(), **run.arrays()}
        self._run = run
        self.replica.keep({state.name for state in run.objects()})
        for (name, channel), array in arrays.items():
            self.replica.put(name, channel, array)

    def show_document(self, document: Document, preview: Preview | None, poses: Poses, frame: int) -> None:
        """The objects at rest, in a frame of their handles, or of the simulation if there is one."""
        put = self.replica.put
        if self._run is not None:
            self._run, self._shown, self._tied = None, {}, (None, [])
        self.replica.keep({"", *document.objects})
        self._shown = {name: seen for name, seen in self._shown.items() if name in document.objects}
        running = preview.arrays() if preview is not None else {}
        for name, table in document.objects.items():
            surface, body = document.surface(name), document.particles(name)
            seen = (surface, body, document.item(name))
            if not all(a is b for a, b in zip(self._shown.get(name, (0, 0, 0)), seen, strict=True)):
                self._shown[name] = seen
                show_object(self.replica, document, name)
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
        self._put_ties(document, preview)

    def ties(self, document: Document) -> list[AttachState]:
        """The attachments of the document that is shown, at rest."""
        found = []
        for table, parsed, tie in zip(document.attach, document.scene.attach, self._tied[1], strict=True):
            gap = tie.gap(partial(gluing.points, document))
            shown = plain({key: value for key, value in table.items() if key != "points"}, parsed)
            health = gluing.health(gap)
            found.append(
                AttachState(table=shown, points=tie.points, gap=gap, health=health, problem=tie.problem)
            )
        return found

    def _put_ties(self, document: Document, preview: Preview | None) -> None:
        """Show attachments where they are; gaps (k,) while the simulation runs, NaN where there is none.

        They are worked out anew where objects or attachments have changed.
        """
        put = self.replica.put
        if self._tied[0] is not document.tables:
            ties = [gluing.tie(document, k) for k in range(len(document.attach))]
            for k in range(len(ties), len(self._tied[1])):
                for channel in ("tie", "share"):
                    put("", f"{channel} {k}", None)
            self._tied = (document.tables, ties)
        ties = self._tied[1]
        for k, tie in enumerate(ties):
            held = preview is None or preview.holds(document.scene.attach[k])
            ends = tie.ends if preview is None else tie.moved(preview.points)
            put("", f"tie {k}", ends if held else None)
            put("", f"share {k}", tie.shares if held else None)
        gaps = [] if preview is None else [tie.gap(preview.points) for tie in ties]
        put("", "gaps", np.array([np.nan if gap is None else gap for gap in gaps]) if gaps else None)
