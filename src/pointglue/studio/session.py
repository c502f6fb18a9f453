"""A session of the studio: one document, its history, and what pages show of it. For one thread."""

import glob
import os
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from ..errors import InputError, PointglueError, PointglueWarning
from . import authoring, gluing, messages, objects, posing, replies
from .document import TIED, Document, empty_document, load_document, save_document
from .files import WorkingDirectory
from .playback import Playback
from .preview import Preview
from .recovery import Recovery
from .replies import AttachState, Clock, SelectionState, State
from .showing import object_state, plain, show_object
from .wire import Replica

__all__ = ["Session"]

AUTOSAVE = 2.0  # s
MOST_UNDO = 300

_EDITS: dict[type[messages.Edit], Callable[[Document, Any], Document]] = {
    messages.Set: lambda document, command: document.set(command.path, command.value),
    messages.AddShape: objects.add_shape,
    messages.SetKind: objects.set_kind,
    messages.Rename: objects.rename,
    messages.Move: objects.move,
    messages.Remove: objects.remove,
    messages.Ground: objects.ground,
    messages.Select: objects.select,
    messages.Make: authoring.make,
    messages.Spray: authoring.spray,
    messages.Place: authoring.place,
    messages.Erase: authoring.erase,
    messages.Connect: authoring.connect,
    messages.ConnectPair: authoring.connect_pair,
    messages.Cut: authoring.cut,
    messages.Paint: authoring.paint,
    messages.Pin: authoring.pin,
    messages.Group: authoring.group,
    messages.Fit: authoring.fit,
    messages.Skin: authoring.skin,
    messages.RemoveHandle: posing.remove_handle,
    messages.Link: posing.link,
    messages.Attach: gluing.attach,
    messages.Detach: gluing.detach,
    messages.New: lambda document, command: empty_document(),
}


class _GivenUpError(PointglueError):
    """A frame that is not computed to its end, since there is something else to do."""


class Session:
    """Commands go in, and the replica changes."""

    def __init__(self, root: Path, start: Path | None = None) -> None:
        self.files = WorkingDirectory(root)
        self.recovery = Recovery(self.files.root)
        self.replica = Replica()
        self.document = empty_document()
        self.frame = 1
        self.notes: list[replies.Note] = []
        """To be told to all pages."""
        self.wanted = threading.Event()
        """Set from any thread: a frame that is being computed is given up, and begun anew when it is due."""
        self._past: list[Document] = []
        self._future: list[Document] = []
        self._stroke = 0
        # By the origin of documents, which undo may bring back: where scenes are, and what is there.
        self._paths: dict[int, Path] = {}
        self._saved: dict[int, Document] = {self.document.origin: self.document}
        self._kept: Document = self.document
        self._kept_at = monotonic()
        self._poses = posing.Poses()
        self._preview: Preview | None = None
        self._run: Playback | None = None
        self._playing = False
        self._due = 0.0
        self._shown: dict[str, tuple[Any, ...]] = {}
        self._tied: tuple[Any, list[gluing.Tie]] = (None, [])
        try:
            if start is not None:
                self._open(start, trusted=True)
                self._past.clear()
        except BaseException:
            self.recovery.close()
            raise
        self.refresh()

    @property
    def path(self) -> Path | None:
        """Where the scene has been read from or saved to."""
        return self._paths.get(self.document.origin)

    @property
    def saved(self) -> bool:
        """Whether the scene is as in its file; what is selected does not count."""
        there, here = self._saved.get(self.document.origin), self.document
        return there is not None and all(
            getattr(there, name) is getattr(here, name) for name in ("tables", "bodies", "rigs")
        )

    def release(self) -> None:
        """Let go of what a page holds that is gone."""
        if self._preview is not None:
            self._preview.let_go()
        self._poses.live.clear()
        self.refresh()

    def close(self) -> None:
        """Keep what has not been saved, and let go of the folder."""
        self._autosave()
        if self.saved:
            self.recovery.clear()
        self.recovery.close()

    def apply(self, command: Any) -> list[Any]:
        """Do what a page asks for; answers for this page alone. PointglueError says what is wrong."""
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", PointglueWarning)
            try:
                answer = self._apply(command)
            finally:
                self.refresh()
        self.notes += [replies.Note(level="info", text=str(warning.message)) for warning in told]
        return answer

    def _apply(self, command: Any) -> list[Any]:
        if isinstance(command, messages.Edit):
            self._edit(self._edited(command), command.stroke)
            return []
        match command:
            case messages.ListFiles(folder=folder):
                return [self.files.listed(folder)]
            case messages.Open(path=path):
                self._open(self.files.inside(path))
            case messages.Save(path=path, replace=replace):
                own = [self.path] if self.path is not None else []
                self._save(self.files.to_write(path, (".toml",), over=None if replace else own))
            case messages.Restore(keep=keep):
                if keep:
                    self._edit(self.files.checked(self.recovery.restore(), trusted=True))
                self.recovery.forget_found()
            case messages.Undo():
                self._go(self._past, self._future, "undo")
            case messages.Redo():
                self._go(self._future, self._past, "redo")
            case messages.DragHandle():
                self._drag(command)
            case messages.Scrub(frame=frame):
                self._scrub(frame)
            case messages.Export():
                self._export(command)
            case _:
                self._perform(command)
        return []

    def _perform(self, command: Any) -> None:
        """What runs and stops."""
        match command:
            case messages.Play():
                if self._run is None and not self._simulated:
                    if self.frame >= self.document.scene.frames.end:
                        self.frame = self.document.scene.frames.start
                else:
                    self._begin()
                if self._run is not None and self._run.frame == self._run.numbers[-1]:
                    self._run.frame = self._run.numbers[0]
                self._playing, self._due = True, monotonic()
            case messages.Pause():
                self._playing = False
            case messages.Step():
                self._playing = False
                if self._run is not None or self._simulated:
                    self._begin()
                self.wanted.clear()
                with suppress(_GivenUpError):
                    self._advance()
            case messages.Reset():
                self._reset()
                if self._run is None:
                    self.frame = self.document.scene.frames.start
            case messages.CloseRun():
                self._playing, self._run = False, None
            case messages.Grab(object=name, position=position):
                self._begin()
                assert self._preview is not None
                self._preview.grab(name, position)
            case messages.Pull(position=position) if self._preview is not None:
                self._preview.pull(position)
            case messages.LetGo() if self._preview is not None:
                self._preview.let_go()

    def _edited(self, command: messages.Edit) -> Document:
        match command:
            case messages.AddHandle():
                return posing.add_handle(self.document, command, self._poses, self.frame)
            case messages.Key():
                return posing.key(self.document, command, self._poses, self.frame)
            case messages.AttachKey():
                return gluing.attach_key(self.document, command, self.frame)
            case messages.Pin() if self.document.table(command.object)["kind"] in TIED:
                return gluing.hold(self.document, command)
        return _EDITS[type(command)](self.document, command)

    def _edit(self, document: Document, stroke: int = 0) -> None:
        """Another document; what was is remembered, unless it is of the same stroke."""
        if document is self.document:
            return
        self._check(self.files.checked(document))
        if not stroke or stroke != self._stroke or not self._past:
            self._past = [*self._past[-MOST_UNDO:], self.document]
        self._stroke = stroke
        self._future.clear()
        self._change(document)

    def _check(self, document: Document) -> None:
        """Raise for what a scene file may say, but cannot be shown."""
        for name, table in document.objects.items():
            if table.get("handles"):
                self._poses.deformer(document, name)
            elif table["kind"] in TIED:
                gluing.points(document, name)
            else:
                document.surface(name)

    def _go(self, source: list[Document], target: list[Document], what: str) -> None:
        if not source:
            raise InputError(f"there is nothing to {what}")
        target.append(self.document)
        self._stroke = 0
        self._change(source.pop())

    def _change(self, document: Document) -> None:
        before, self.document = self.document, document
        self._poses.live.clear()
        frames = document.scene.frames
        if self._preview is None:
            self.frame = min(max(self.frame, frames.start), frames.end)
        if self._preview is None or (before.tables is document.tables and before.bodies is document.bodies):
            return
        preview = self._preview
        try:
            # What runs goes on with what has changed, if it can.
            self._preview = Preview(document, self.recovery.save(document))
            if not self._preview.resumed(preview):
                self._playing = False
                self.notes.append(replies.Note(level="info", text="The simulation begins anew."))
            self.frame = self._preview.frame
        except PointglueError as error:
            self._reset()
            self.notes.append(replies.Note(level="info", text=f"The simulation was reset: {error}"))

    def _open(self, path: Path, trusted: bool = False) -> None:
        """A mesh, a scene or a run."""
        if path.is_dir():
            self._playing, self._run = False, Playback(path, self.files.shown(path))
            return
        self._run = None
        if path.suffix.lower() == ".toml":
            document = load_document(path, partial(self.files.allow, trusted=trusted))
            self._check(document)
            self._reset()
            self._edit(document)
            self._paths[document.origin], self._saved[document.origin] = path, document
            self.frame = document.scene.frames.start
            return
        name = self.document.free_name(path.stem)
        table = {"kind": "handles", "mesh": {"file": str(path.resolve())}, "handles": {}}
        document = self.document.with_object(name, table)
        self._edit(self.files.checked(document, trusted=trusted))

    def _save(self, path: Path) -> None:
        if not self.document.objects:
            raise InputError("there is nothing to save yet: open a mesh first")
        save_document(self.document, path)
        self._paths[self.document.origin], self._saved[self.document.origin] = path, self.document
        self.recovery.clear()
        self._kept = self.document
        name = self.files.shown(path)
        self.notes.append(
            replies.Note(
                level="info", text=f"Saved {name}. Run it with: pointglue run {name} -o {path.stem}_run"
            )
        )

    def _drag(self, command: messages.DragHandle) -> None:
        self._reset(keep_frame=True)
        self.document.table(command.object)
        self._poses.drag(self.document, command, self.frame)
        if command.done:
            # The pose that is kept is the one that was shown.
            self._edit(self._poses.settled(self.document, command.object, self.frame))

    def _scrub(self, frame: int) -> None:
        if self._run is not None:
            self._playing = False
            self._run.seek(frame)
            return
        frames = self.document.scene.frames
        self._reset()
        self.frame = min(max(frame, frames.start), frames.end)

    def _export(self, command: messages.Export) -> None:
        self.document.table(command.object)
        path = self.files.to_write(command.path, posing.EXPORTS, over=None if command.replace else ())
        if command.animation and not command.replace:
            there = sorted(path.parent.glob(f"{glob.escape(path.stem)}_[0-9]*{path.suffix}"))
            if there:
                raise InputError(f"{self.files.shown(there[0])}: is there already, choose another name")
        shown = self.replica.get(command.object, "vertices")
        names = posing.export(self.document, command, self._poses, shown, path)
        text = names.replace(str(self.files.root) + os.sep, "")
        self.notes.append(replies.Note(level="info", text=f"Wrote {text}"))

    @property
    def _simulated(self) -> bool:
        """Whether there is anything that moves other than by handles."""
        kinds = {table["kind"] for table in self.document.objects.values()}
        return not kinds or bool(kinds - {"handles", "collider"})

    def _begin(self) -> None:
        """Build the simulation if there is none."""
        if self._run is None and self._preview is None:
            if not self.document.objects:
                raise InputError("there is nothing to simulate yet: open a mesh first")
            self._clock("building")
            self._preview = Preview(self.document, self.recovery.save(self.document))

    def _reset(self, keep_frame: bool = False) -> None:
        if self._preview is None and not self._playing and (self._run is None or keep_frame):
            return
        self._playing, self._preview = False, None
        if self._run is not None:
            self._run.frame = self._run.numbers[0]
        elif not keep_frame:
            self.frame = self.document.scene.frames.start

    def _advance(self) -> None:
        if self._run is not None:
            self._playing &= self._run.advance()
            return
        if self._preview is None:  # handles alone: round and round
            frames = self.document.scene.frames
            self.frame = self.frame + 1 if self.frame < frames.end else frames.start
            return
        self._preview.advance(self._watch)
        self.frame = self._preview.frame

    def _watch(self) -> None:
        if self.wanted.is_set():
            raise _GivenUpError("something else is to be done")

    def tick(self) -> float:
        """Do what is due; the seconds until there is something to do again."""
        now = monotonic()
        if self.document is not self._kept and now - self._kept_at > AUTOSAVE:
            self._autosave()
        if not self._playing:
            return AUTOSAVE / 2
        if now >= self._due:
            try:
                self._advance()
            except _GivenUpError:
                return 0.0
            except PointglueError as error:
                self._playing = False
                self.notes.append(replies.Note(level="error", text=str(error)))
            rate = self.document.scene.frames.rate if self._run is None else self._run.store.rate
            # What comes late does not hurry after.
            self._due = max(self._due + 1 / rate, monotonic())
            self.refresh()
        return min(max(self._due - monotonic(), 0.0), AUTOSAVE / 2)

    def _autosave(self) -> None:
        self._kept_at = monotonic()
        if self.saved or self.document is self._kept or not self.document.objects:
            return
        try:
            self.recovery.save(self.document)
            self._kept = self.document
        except PointglueError as error:
            self.notes.append(replies.Note(level="error", text=f"Autosave failed: {error}"))

    def _clock(self, status: Any = None) -> None:
        if status is None:
            waiting = "still" if self._preview is None else "paused"
            status = "playing" if self._playing else waiting
        preview = self._preview
        clock = Clock(
            frame=self._run.frame if self._run is not None else self.frame,
            status=status,
            milliseconds=round(preview.milliseconds / preview.steps, 2) if preview is not None else 0.0,
            grabbed=preview is not None and preview.hand is not None,
        )
        self.replica.put_clock(clock)

    def refresh(self) -> None:
        """Let the replica show what is."""
        put = self.replica.put
        if self._run is not None:
            arrays = (
                {**self._run.still(), **self._run.arrays()}
                if "run" not in self._shown
                else self._run.arrays()
            )
            self._shown = {"run": ()}
            self.replica.keep({name for name, _ in arrays} | {o.name for o in self._run.objects()})
            for (name, channel), array in arrays.items():
                put(name, channel, array)
        else:
            if "run" in self._shown:
                self._shown, self._tied = {}, (None, [])
            self._refresh_document()
        self._clock()
        self.replica.put_state(self._state())

    def _refresh_document(self) -> None:
        document, put = self.document, self.replica.put
        self.replica.keep({"", *document.objects})
        self._shown = {name: seen for name, seen in self._shown.items() if name in document.objects}
        running = self._preview.arrays() if self._preview is not None else {}
        for name, table in document.objects.items():
            surface, body = document.surface(name), document.particles(name)
            seen = (surface, body, document.item(name))
            if not all(a is b for a, b in zip(self._shown.get(name, (0, 0, 0)), seen, strict=True)):
                self._shown[name] = seen
                show_object(self.replica, document, name)
            handles = table["kind"] == "handles"
            put(
                name,
                "handles",
                self._poses.handles(document, name, self.frame) if table.get("handles") else None,
            )
            vertices = running.get((name, "vertices"))
            if vertices is None and handles and self._preview is None:
                vertices = self._poses.vertices(document, name, self.frame)
            put(name, "vertices", vertices)
            for channel in ("particles_now", "turns_now"):
                put(name, channel, running.get((name, channel)))
            for what in ("particles", "vertices", "points"):
                chosen = None if document.selection is None else document.selection.of(name, what)
                put(name, f"selected_{what}", chosen if chosen is not None and len(chosen) else None)
        put("", "hand", running.get(("", "hand")))
        self._put_ties()

    def _state(self) -> State:
        document = self.document
        frames = document.scene.frames
        chosen, path = document.selection, self.path
        ground = document.objects.get(objects.GROUND, {}).get("mesh", {}).get("point")
        return State(
            title=document.scene.title,
            path="" if path is None else self.files.shown(path),
            folder=str(self.files.root),
            saved=self.saved,
            objects=self._run.objects()
            if self._run is not None
            else [object_state(document, name) for name in document.objects],
            attach=[] if self._run is not None else self._ties(),
            frames={"start": frames.start, "end": frames.end, "rate": frames.rate},
            gravity=document.scene.world.gravity,
            ground=None if ground is None else float(ground[1]),
            selection=None
            if chosen is None
            else SelectionState(
                object=chosen.object, what=chosen.what, count=len(chosen.of(chosen.object, chosen.what))
            ),
            undo=len(self._past),
            redo=len(self._future),
            run=None if self._run is None else self._run.state,
            found="" if self.recovery.found is None else self.files.shown(self.recovery.found),
            tables={key: value for key, value in document.tables.items() if key not in ("objects", "attach")},
        )

    def _ties(self) -> list[AttachState]:
        """The attachments at rest; they are worked out anew where objects or attachments have changed."""
        if self._tied[0] is not self.document.tables:
            ties = [gluing.tie(self.document, k) for k in range(len(self.document.attach))]
            for k in range(len(ties), len(self._tied[1])):
                for channel in ("tie", "share"):
                    self.replica.put("", f"{channel} {k}", None)
            self._tied = (self.document.tables, ties)
            self._put_ties()
        found = []
        known = self.document.scene.attach
        for table, parsed, tie in zip(self.document.attach, known, self._tied[1], strict=True):
            gap = tie.gap(partial(gluing.points, self.document))
            shown = plain({key: value for key, value in table.items() if key != "points"}, parsed)
            health = gluing.health(gap)
            found.append(
                AttachState(table=shown, points=tie.points, gap=gap, health=health, problem=tie.problem)
            )
        return found

    def _put_ties(self) -> None:
        """Show attachments where they are; gaps (k,) while the simulation runs, NaN where there is none."""
        put, preview, ties = self.replica.put, self._preview, self._tied[1]
        for k, tie in enumerate(ties):
            put("", f"tie {k}", tie.ends if preview is None else tie.moved(preview.points))
            put("", f"share {k}", tie.shares)
        gaps = [] if preview is None else [tie.gap(preview.points) for tie in ties]
        put("", "gaps", np.array([np.nan if gap is None else gap for gap in gaps]) if gaps else None)
