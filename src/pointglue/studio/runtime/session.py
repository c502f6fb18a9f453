"""A session of the studio: one document, its history, and what pages show of it. For one thread."""

import os
import shlex
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from ...errors import InputError, PointglueError, PointglueWarning
from ..document.document import TIED, Document, empty_document, load_document, save_document
from ..document.folder import WorkingDirectory
from ..document.recovery import Recovery
from ..edits import bindings as gluing
from ..edits import objects
from ..edits import poses as posing
from ..edits.dispatch import edited
from ..protocol import commands as messages
from ..protocol import replies
from ..protocol.replies import Clock, SelectionState, State
from ..protocol.wire import Replica
from .display import Display
from .playback import Playback
from .preview import Preview, StoppedError, require_holdable, unskinned
from .showing import object_state

__all__ = ["Session"]

AUTOSAVE = 2.0  # s
MOST_UNDO = 300
# What commands change, and what is put back where one fails: values that are replaced, not changed in place.
_CHANGING = (
    "document", "frame", "notes", "_past", "_future", "_stroke", "_paths", "_saved", "_kept", "_preview",
    "_run", "_playing", "_due", "_problem", "_told_unskinned",
)  # fmt: skip


class _GivenUpError(Exception):
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
        self.interrupted: Callable[[], bool] = lambda: False
        """Whether there is something else to do: a frame that is being computed is given up then, and begun
        anew when it is due."""
        self._past: tuple[Document, ...] = ()
        self._future: tuple[Document, ...] = ()
        self._stroke = 0
        # By the origin of documents, which undo may bring back: where scenes are, and what is there.
        self._paths: dict[int, Path] = {}
        self._saved: dict[int, Document] = {self.document.origin: self.document}
        self._kept: Document = self.document
        self._kept_at = monotonic()
        self._keeping_failed = False
        self._poses = posing.Poses()
        self._preview: Preview | None = None
        self._run: Playback | None = None
        self._playing = False
        self._due = 0.0
        self._problem = ""
        self._told_unskinned: frozenset[tuple[int, str]] = frozenset()
        self._display = Display(self.replica)
        try:
            if start is not None:
                self._open(start, trusted=True)
                self._past = ()
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
        self._poses.live = {}
        self.refresh()

    def close(self) -> None:
        """Keep what has not been saved, and let go of the folder."""
        self._autosave()
        if self.saved:
            self.recovery.clear()
        self.recovery.close()

    def apply(self, command: Any) -> list[Any]:
        """Do what a page asks for; answers for this page alone.

        PointglueError says what is wrong. A command that fails leaves everything as it was.
        """
        before = {name: getattr(self, name) for name in _CHANGING}
        live = self._poses.live
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", PointglueWarning)
            try:
                answer = self._apply(command)
                self.refresh()
            except StoppedError:  # the command was right: it is the simulation that has come to its end
                self.refresh()
                raise
            except BaseException:
                vars(self).update(before)
                self._poses.live = live
                self.refresh()
                raise
        for warning in told:
            self._tell(str(warning.message))
        return answer

    def _tell(self, text: str, level: Literal["info", "error"] = "info") -> None:
        """A note to all pages."""
        self.notes = [*self.notes, replies.Note(level=level, text=text)]

    def _apply(self, command: Any) -> list[Any]:
        if isinstance(command, messages.New):
            self._take(empty_document())
            return []
        if isinstance(command, messages.Edit):
            self._edit(edited(self.document, command, self._poses, self.frame), command.stroke)
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
                    self._restore()
                self.recovery.forget_found()
            case messages.Undo():
                self._undo()
            case messages.Redo():
                self._redo()
            case messages.DragHandle():
                self._drag(command)
            case messages.Scrub(frame=frame):
                self._scrub(frame)
            case messages.Export():
                return self._export(command)
            case _:
                self._perform(command)
        return []

    def _perform(self, command: Any) -> None:
        """What runs and stops."""
        match command:
            case messages.Play():
                self._playing, self._problem = False, ""
                if self._run is not None:
                    self._run.resume()
                elif self._simulated:
                    self._begin()
                    self._tell_unskinned()
                elif self.frame >= self.document.scene.frames.end:
                    self.frame = self.document.scene.frames.start
                self._playing, self._due = True, monotonic()
            case messages.Pause():
                self._playing = False
            case messages.Step():
                self._playing, self._problem = False, ""
                if self._run is None and self._simulated:
                    self._begin()
                with suppress(_GivenUpError):
                    self._advance()
            case messages.Reset() if self._run is not None:
                self._playing = False
                self._run.rewind()
            case messages.Reset():
                self._reset()
                self.frame = self.document.scene.frames.start
            case messages.CloseRun():
                self._playing, self._run = False, None
            case messages.Grab(object=name, position=position):
                if self._run is not None:
                    raise InputError("a run is only played: go back to the scene to take hold of something")
                require_holdable(self.document, name)
                self._begin().grab(name, position)
            case messages.Pull(position=position) if self._preview is not None:
                self._preview.pull(position)
            case messages.LetGo() if self._preview is not None:
                self._preview.let_go()

    def _edit(self, document: Document, stroke: int = 0) -> None:
        """Another document; what was is remembered, unless it is of the same stroke."""
        if document is self.document:
            return
        self._check(self.files.checked(document))
        document = gluing.carried(self.document, document)
        if not stroke or stroke != self._stroke or not self._past:
            self._past = (*self._past[-MOST_UNDO:], self.document)
        self._stroke, self._future = stroke, ()
        self._change(document)

    def _check(self, document: Document) -> None:
        """Raise for what a scene file may say, but cannot be shown."""
        for name, table in document.objects.items():
            try:
                if table.get("handles"):
                    self._poses.deformer(document, name)
                elif table["kind"] in TIED:
                    gluing.points(document, name)
                else:
                    document.surface(name)
            except InputError as error:
                raise InputError(f"objects.{name}: {error}") from error

    def _undo(self) -> None:
        if not self._past:
            raise InputError("there is nothing to undo")
        document, self._past = self._past[-1], self._past[:-1]
        self._future, self._stroke = (*self._future, self.document), 0
        self._change(document)

    def _redo(self) -> None:
        if not self._future:
            raise InputError("there is nothing to redo")
        document, self._future = self._future[-1], self._future[:-1]
        self._past, self._stroke = (*self._past, self.document), 0
        self._change(document)

    def _change(self, document: Document) -> None:
        before, self.document = self.document, document
        self._poses.live = {}
        frames = document.scene.frames
        if self._preview is None:
            self.frame = min(max(self.frame, frames.start), frames.end)
        if self._preview is None or (before.tables is document.tables and before.bodies is document.bodies):
            return
        if not document.objects or not self._simulated:
            self._reset()
            return
        preview, self._problem = self._preview, ""
        try:
            # What runs goes on with what has changed, if it can.
            self._preview = Preview(document, self.recovery.build(document))
            if not self._preview.resumed(preview):
                self._playing = False
                self._tell("The simulation begins anew.")
            self.frame = self._preview.frame
        except PointglueError as error:
            self._reset()
            self._tell(f"The simulation was reset: {error}")

    def _open(self, path: Path, trusted: bool = False) -> None:
        """A mesh, a scene or a run."""
        if path.is_dir():
            self._run = Playback(path, self.files.shown(path))
            self._playing = False
        elif path.suffix.lower() == ".toml":
            self.files.allow(path, trusted=trusted)
            document = load_document(path, partial(self.files.allow, trusted=trusted))
            try:
                self._check(document)
            except InputError as error:
                raise InputError(f"{self.files.shown(path)}: {error}") from error
            self._take(document)
            self._filed(document, path.resolve())
        else:
            name = self.document.free_name(path.stem)
            table = {"kind": "handles", "mesh": {"file": str(path.resolve())}, "handles": {}}
            document = self.files.checked(self.document.with_object(name, table), trusted=trusted)
            self._check(document)
            self._run = None
            self._edit(document)

    def _take(self, document: Document) -> None:
        """Another scene."""
        self._check(document)
        self._run = None
        self._reset()
        self._edit(document)
        self.frame = document.scene.frames.start

    def _restore(self) -> None:
        """Take what was found. It is kept anew at once, since the only copy is about to be thrown away."""
        document, path = self.recovery.restore()
        self._take(self.files.checked(document, trusted=True))
        if path is not None:
            with suppress(InputError):  # a file elsewhere, that nobody has named this time
                self.files.allow(path)
                self._paths = {**self._paths, document.origin: path}
        self.recovery.save(document, self.path)
        self._kept = document

    def _save(self, path: Path) -> None:
        if not self.document.objects:
            raise InputError("there is nothing to save yet: open a mesh first")
        save_document(self.document, path)
        self._filed(self.document, path)
        self.recovery.clear()
        self._kept = self.document
        name = self.files.shown(path)
        command = f"pointglue run {shlex.quote(name)} -o {shlex.quote(f'{path.stem}_run')}"
        self._tell(f"Saved {name}. Run it with: {command}")

    def _filed(self, document: Document, path: Path) -> None:
        """A document is as in its file."""
        self._paths = {**self._paths, document.origin: path}
        self._saved = {**self._saved, document.origin: document}

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

    def _export(self, command: messages.Export) -> list[Any]:
        self.document.table(command.object)
        path = self.files.to_write(command.path, posing.EXPORTS, over=None)
        there = posing.in_the_way(path, command.animation)
        self.files.spare_meshes(there, (*self._past, *self._future, self.document))
        if there and not command.replace:
            return [replies.Exists(path=self.files.shown(there[0]))]
        shown = self.replica.get(command.object, "vertices")
        names = posing.export(self.document, command, self._poses, shown, path)
        text = names.replace(str(self.files.root) + os.sep, "")
        self._tell(f"Wrote {text}")
        return []

    @property
    def _simulated(self) -> bool:
        """Whether there is anything that moves other than by handles."""
        kinds = {table["kind"] for table in self.document.objects.values()}
        return not kinds or bool(kinds - {"handles", "collider"})

    def _begin(self) -> Preview:
        """The simulation; it is built if there is none."""
        if self._preview is None:
            if not self.document.objects:
                raise InputError("there is nothing to simulate yet: open a mesh first")
            self._clock("building")
            self._preview = Preview(self.document, self.recovery.build(self.document))
        return self._preview

    def _tell_unskinned(self) -> None:
        """Say once of each mesh that stays behind when its particles move."""
        for name in unskinned(self.document):
            if (self.document.origin, name) not in self._told_unskinned:
                self._told_unskinned |= {(self.document.origin, name)}
                text = f"The mesh of {name!r} does not follow its particles yet: Author, Skin."
                self._tell(text)

    def _reset(self, keep_frame: bool = False) -> None:
        """Without a simulation; a run stays where it is."""
        self._problem = ""
        if self._preview is None and not self._playing:
            return
        self._playing, self._preview = False, None
        if not keep_frame:
            self.frame = self.document.scene.frames.start

    def _advance(self) -> None:
        if self._run is not None:
            # Of a run that is slower than it is played, the next frame is waited for.
            self._playing &= self._run.advance() or self._run.growing
        elif self._preview is None:  # handles alone: round and round
            frames = self.document.scene.frames
            self.frame = self.frame + 1 if self.frame < frames.end else frames.start
        else:
            try:
                self._preview.advance(self._watch)
            except StoppedError as error:
                self._problem = str(error)
                raise
            self.frame = self._preview.frame

    def _watch(self) -> None:
        if self.interrupted():
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
                self.refresh()
            except _GivenUpError:
                return 0.0
            except PointglueError as error:
                self._playing = False
                self._tell(str(error), "error")
                self.refresh()
            except BaseException:
                self._playing = False  # or it would be raised in every frame to come
                raise
            rate = self.document.scene.frames.rate if self._run is None else self._run.store.rate
            # What comes late does not hurry after.
            self._due = max(self._due + 1 / rate, monotonic())
        return min(max(self._due - monotonic(), 0.0), AUTOSAVE / 2)

    def _autosave(self) -> None:
        """Keep what is not saved, and nothing else."""
        self._kept_at = monotonic()
        if self.document is self._kept or not self.document.objects:
            return
        try:
            if not self.saved:
                self.recovery.save(self.document, self.path)
            elif self._kept.origin == self.document.origin:
                self.recovery.clear()  # undo has led back to what is in the file
            self._kept, self._keeping_failed = self.document, False
        except PointglueError as error:
            if not self._keeping_failed:  # once is enough of a full disk
                self._tell(f"Autosave failed: {error}", "error")
            self._keeping_failed = True

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
            problem=self._problem if self._run is None else "",
        )
        self.replica.put_clock(clock)

    def refresh(self) -> None:
        """Let the replica show what is."""
        if self._run is not None:
            self._display.show_run(self._run)
        else:
            self._display.show_document(self.document, self._preview, self._poses, self.frame)
        self._clock()
        self.replica.put_state(self._state())

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
            attach=[] if self._run is not None else self._display.ties(document),
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
