"""A session of the studio: one document, its history, and what pages show of it, for one thread."""

import copy
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
from ..document.document import BINDABLE, Document, empty_document, load_document, save_document
from ..document.folder import WorkingDirectory
from ..document.recovery import Recovery
from ..edits import bindings
from ..edits import poses as handle_edits
from ..edits.dispatch import edited
from ..protocol import commands as messages
from ..protocol import replies
from ..protocol.replies import Clock, State
from ..protocol.wire import Replica
from .display import Display
from .page_state import page_state
from .playback import Playback
from .preview import Preview, StoppedError, is_simulated, require_grabbable, unskinned
from .session_state import SessionState

__all__ = ["Session"]

AUTOSAVE_INTERVAL = 2.0  # s between copies of unsaved work: what a crash may lose
MOST_UNDO = 300  # edits: documents share what they have in common, so that these are cheap


class _InterruptedError(Exception):
    """A frame that is not computed to its end, since a page asks for something else."""


class Session:
    """The scene that pages edit: commands go in, and the replica changes.

    Parameters
    ----------
    root : Path
        The working directory; pages open and write files below it only.
    start : Path, optional
        A mesh, a scene file or the folder of a run to open first. It may be outside of `root`.
    clock : callable, optional
        Returns the time [s] that frames and automatic copies follow; the default is `time.monotonic`.

    Attributes
    ----------
    state : SessionState
        What commands change: the document, its history, the simulation and the run that is played.
    poses : Poses
        The deformers of objects with handles, and the handles that are being dragged.
    replica : Replica
        What pages are sent.
    files : WorkingDirectory
        The files that pages may open and write.
    recovery : Recovery
        The copy of unsaved work.
    interrupted : callable
        Returns whether another command waits. A frame that is being computed is given up then, and computed
        anew when it is due.

    Raises
    ------
    InputError
        If `start` cannot be opened, or another studio works in `root`.
    """

    def __init__(
        self, root: Path, start: Path | None = None, *, clock: Callable[[], float] = monotonic
    ) -> None:
        self.clock = clock
        self.files = WorkingDirectory(root)
        self.recovery = Recovery(self.files.root)
        self.replica = Replica()
        self.poses = handle_edits.Poses()
        self.interrupted: Callable[[], bool] = lambda: False
        document = empty_document()
        self.state = SessionState(document, document, saved={document.origin: document})
        self._kept_at = clock()
        self._keeping_failed = False
        self._display = Display(self.replica)
        try:
            if start is not None:
                self._open(start, trusted=True)
                self.state.past = ()
        except BaseException:
            self.recovery.close()
            raise
        self.refresh()

    @property
    def document(self) -> Document:
        """The scene that is edited."""
        return self.state.document

    @property
    def frame(self) -> int:
        """The number of the frame that is shown of the document."""
        return self.state.frame

    @property
    def notes(self) -> list[replies.Note]:
        """The notes that no page has been told yet."""
        return self.state.notes

    def take_notes(self) -> list[replies.Note]:
        """Return the notes that no page has been told yet, and forget them."""
        notes, self.state.notes = self.state.notes, []
        return notes

    @property
    def path(self) -> Path | None:
        """The file that the scene was read from or saved to, None for a new scene."""
        return self.state.paths.get(self.document.origin)

    @property
    def saved(self) -> bool:
        """Whether the scene is as in its file; a change of the selection does not count."""
        there, here = self.state.saved.get(self.document.origin), self.document
        return there is not None and all(
            getattr(there, name) is getattr(here, name) for name in ("tables", "bodies", "rigs")
        )

    def release(self) -> None:
        """Release what a page that has left was dragging."""
        if self.state.preview is not None:
            self.state.preview.let_go()
        self.poses.live = {}
        self.refresh()

    def close(self) -> None:
        """Keep a copy of unsaved work, and unlock the working directory."""
        self._autosave()
        if self.saved:
            self.recovery.clear()
        self.recovery.close()

    def apply(self, command: Any) -> list[Any]:
        """Carry out a command of a page.

        A command that fails leaves everything as it was.

        Parameters
        ----------
        command : Message
            One of `protocol.commands.COMMANDS`.

        Returns
        -------
        list of Message
            Answers to the page that sent the command, from `protocol.replies`.

        Raises
        ------
        PointglueError
            If the command cannot be carried out; the message says why.
        """
        before, live = copy.copy(self.state), self.poses.live
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", PointglueWarning)
            try:
                answer = self._apply(command)
                self.refresh()
            except StoppedError:  # the command was right: it is the simulation that has come to its end
                self.refresh()
                raise
            except BaseException:
                self.state, self.poses.live = before, live
                self.refresh()
                raise
        for warning in caught:
            self._note(str(warning.message))
        return answer

    def _note(self, text: str, level: Literal["info", "error"] = "info") -> None:
        """Leave a note for all pages."""
        self.state.notes = [*self.state.notes, replies.Note(level=level, text=text)]

    def _apply(self, command: Any) -> list[Any]:
        """Carry out a command; whoever calls restores the state if it fails."""
        if isinstance(command, messages.New):
            self._replace_scene(empty_document())
            return []
        if isinstance(command, messages.Edit):
            self._edit(edited(self.document, command, self.poses, self.frame), command.stroke)
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
        """Carry out a command that plays, stops, or pulls at the simulation."""
        match command:
            case messages.Play():
                self.state.playing, self.state.problem = False, ""
                if self.state.run is not None:
                    self.state.run.resume()
                elif is_simulated(self.document):
                    self._simulation()
                    self._warn_unskinned()
                elif self.frame >= self.document.scene.frames.end:
                    self.state.frame = self.document.scene.frames.start
                self.state.playing, self.state.due = True, self.clock()
            case messages.Pause():
                self.state.playing = False
            case messages.Step():
                self.state.playing, self.state.problem = False, ""
                if self.state.run is None and is_simulated(self.document):
                    self._simulation()
                with suppress(_InterruptedError):
                    self._advance()
            case messages.Reset() if self.state.run is not None:
                self.state.playing = False
                self.state.run.rewind()
            case messages.Reset():
                self._reset()
                self.state.frame = self.document.scene.frames.start
            case messages.CloseRun():
                self.state.playing, self.state.run = False, None
            case messages.Grab(object=name, position=position):
                if self.state.run is not None:
                    raise InputError("a run is only played: go back to the scene to take hold of something")
                require_grabbable(self.document, name)
                self._simulation().grab(name, position)
            case messages.Pull(position=position) if self.state.preview is not None:
                self.state.preview.pull(position)
            case messages.LetGo() if self.state.preview is not None:
                self.state.preview.let_go()

    def _edit(self, document: Document, stroke: int = 0) -> None:
        """Replace the document; undo returns to the one before, or to that before the same stroke."""
        if document is self.document:
            return
        self._check(self.files.checked(document))
        document = bindings.with_matched_points(self.document, document)
        if not stroke or stroke != self.state.stroke or not self.state.past:
            self.state.past = (*self.state.past[-MOST_UNDO:], self.document)
        self.state.stroke, self.state.future = stroke, ()
        self._change(document)

    def _check(self, document: Document) -> None:
        """Raise InputError for objects that a scene file may have, but that cannot be shown."""
        for name, table in document.objects.items():
            try:
                if table.get("handles"):
                    self.poses.deformer(document, name)
                elif table["kind"] in BINDABLE:
                    bindings.bindable_points(document, name)
                else:
                    document.surface(name)
            except InputError as error:
                raise InputError(f"objects.{name}: {error}") from error

    def _undo(self) -> None:
        """Return to the document before the last edit."""
        if not self.state.past:
            raise InputError("there is nothing to undo")
        document, self.state.past = self.state.past[-1], self.state.past[:-1]
        self.state.future, self.state.stroke = (*self.state.future, self.document), 0
        self._change(document)

    def _redo(self) -> None:
        """Return to the document before the last undo."""
        if not self.state.future:
            raise InputError("there is nothing to redo")
        document, self.state.future = self.state.future[-1], self.state.future[:-1]
        self.state.past, self.state.stroke = (*self.state.past, self.document), 0
        self._change(document)

    def _change(self, document: Document) -> None:
        """Show another document; a simulation under way continues with what has changed, if it can."""
        before, self.state.document = self.document, document
        self.poses.live = {}
        frames = document.scene.frames
        if self.state.preview is None:
            self.state.frame = min(max(self.frame, frames.start), frames.end)
        if self.state.preview is None or (
            before.tables is document.tables and before.bodies is document.bodies
        ):
            return
        if not document.objects or not is_simulated(self.document):
            self._reset()
            return
        preview, self.state.problem = self.state.preview, ""
        try:
            self.state.preview = Preview(document, self.recovery.build(document))
            if not self.state.preview.resume_from(preview):
                self.state.playing = False
                self._note("The simulation begins anew.")
            self.state.frame = self.state.preview.frame
        except PointglueError as error:
            self._reset()
            self._note(f"The simulation was reset: {error}")

    def _open(self, path: Path, trusted: bool = False) -> None:
        """Open a mesh, a scene or a run."""
        if path.is_dir():
            self.state.run = Playback(path, self.files.display_path(path))
            self.state.playing = False
        elif path.suffix.lower() == ".toml":
            self.files.allow(path, trusted=trusted)
            document = load_document(path, partial(self.files.allow, trusted=trusted))
            try:
                self._check(document)
            except InputError as error:
                raise InputError(f"{self.files.display_path(path)}: {error}") from error
            self._replace_scene(document)
            self._note_file(document, path.resolve())
        else:
            name = self.document.free_name(path.stem)
            table = {"kind": "handles", "mesh": {"file": str(path.resolve())}, "handles": {}}
            document = self.files.checked(self.document.with_object(name, table), trusted=trusted)
            self._check(document)
            self.state.run = None
            self._edit(document)

    def _replace_scene(self, document: Document) -> None:
        """Replace the scene by another one."""
        self._check(document)
        self.state.run = None
        self._reset()
        self._edit(document)
        self.state.frame = document.scene.frames.start

    def _restore(self) -> None:
        """Open the recovered scene.

        It is copied again at once, since the copy that was found is about to be removed.
        """
        document, path = self.recovery.restore()
        self._replace_scene(self.files.checked(document, trusted=True))
        if path is not None:
            with suppress(InputError):  # a file elsewhere, that nobody has named this time
                self.files.allow(path)
                self.state.paths = {**self.state.paths, document.origin: path}
        self.recovery.save(document, self.path)
        self.state.kept = document

    def _save(self, path: Path) -> None:
        """Write the scene to a file."""
        if not self.document.objects:
            raise InputError("there is nothing to save yet: open a mesh first")
        save_document(self.document, path)
        self._note_file(self.document, path)
        self.recovery.clear()
        self.state.kept = self.document
        name = self.files.display_path(path)
        command = f"pointglue run {shlex.quote(name)} -o {shlex.quote(f'{path.stem}_run')}"
        self._note(f"Saved {name}. Run it with: {command}")

    def _note_file(self, document: Document, path: Path) -> None:
        """Remember that a document is as in its file."""
        self.state.paths = {**self.state.paths, document.origin: path}
        self.state.saved = {**self.state.saved, document.origin: document}

    def _drag(self, command: messages.DragHandle) -> None:
        """Move a handle; once it is released, its place becomes a key."""
        self._reset(keep_frame=True)
        self.document.table(command.object)
        self.poses.drag(self.document, command, self.frame)
        if command.done:
            self._edit(self.poses.with_dragged_keys(self.document, command.object, self.frame))

    def _scrub(self, frame: int) -> None:
        """Show a frame of the run or of the document."""
        if self.state.run is not None:
            self.state.playing = False
            self.state.run.seek(frame)
            return
        frames = self.document.scene.frames
        self._reset()
        self.state.frame = min(max(frame, frames.start), frames.end)

    def _export(self, command: messages.Export) -> list[Any]:
        """Write the mesh of an object, or answer with a file that would be replaced."""
        self.document.table(command.object)
        path = self.files.to_write(command.path, handle_edits.EXPORTS, over=None)
        existing = handle_edits.existing_exports(path, command.animation)
        self.files.check_not_meshes(existing, (*self.state.past, *self.state.future, self.document))
        if existing and not command.replace:
            return [replies.Exists(path=self.files.display_path(existing[0]))]
        shown = self.replica.get(command.object, "vertices")
        names = handle_edits.export(self.document, command, self.poses, shown, path)
        text = names.replace(str(self.files.root) + os.sep, "")
        self._note(f"Wrote {text}")
        return []

    def _simulation(self) -> Preview:
        """Return the simulation, which is built if there is none yet."""
        if self.state.preview is None:
            if not self.document.objects:
                raise InputError("there is nothing to simulate yet: open a mesh first")
            self._put_clock("building")
            self.state.preview = Preview(self.document, self.recovery.build(self.document))
        return self.state.preview

    def _warn_unskinned(self) -> None:
        """Note once for each mesh that it does not follow its particles."""
        for name in unskinned(self.document):
            if (self.document.origin, name) not in self.state.warned_unskinned:
                self.state.warned_unskinned |= {(self.document.origin, name)}
                self._note(f"The mesh of {name!r} does not follow its particles yet: Author, Skin.")

    def _reset(self, keep_frame: bool = False) -> None:
        """End the simulation; a run stays at its frame."""
        self.state.problem = ""
        if self.state.preview is None and not self.state.playing:
            return
        self.state.playing, self.state.preview = False, None
        if not keep_frame:
            self.state.frame = self.document.scene.frames.start

    def _advance(self) -> None:
        """Go to the next frame of the run, of the keys of handles, or of the simulation."""
        if self.state.run is not None:
            # If the run is computed more slowly than it is played, wait for its next frame.
            self.state.playing &= self.state.run.advance() or self.state.run.growing
        elif self.state.preview is None:  # handles alone: from the start again after the end
            frames = self.document.scene.frames
            self.state.frame = self.frame + 1 if self.frame < frames.end else frames.start
        else:
            try:
                self.state.preview.advance(self._check_interrupted)
            except StoppedError as error:
                self.state.problem = str(error)
                raise
            self.state.frame = self.state.preview.frame
            for event in self.state.preview.events:
                self._note(f"Frame {self.state.frame}: {event}.")

    def _check_interrupted(self) -> None:
        """Raise if another command waits."""
        if self.interrupted():
            raise _InterruptedError

    def tick(self) -> float:
        """Show the next frame and copy unsaved work if they are due; return when to call again [s]."""
        now = self.clock()
        if self.document is not self.state.kept and now - self._kept_at > AUTOSAVE_INTERVAL:
            self._autosave()
        if not self.state.playing:
            return AUTOSAVE_INTERVAL / 2
        if now >= self.state.due:
            try:
                self._advance()
                self.refresh()
            except _InterruptedError:
                return 0.0
            except PointglueError as error:
                self.state.playing = False
                self._note(str(error), "error")
                self.refresh()
            except BaseException:
                self.state.playing = False  # or it would be raised in every frame to come
                raise
            rate = self.document.scene.frames.rate if self.state.run is None else self.state.run.store.rate
            # A frame that comes late does not shorten the wait for the next one.
            self.state.due = max(self.state.due + 1 / rate, self.clock())
        return min(max(self.state.due - self.clock(), 0.0), AUTOSAVE_INTERVAL / 2)

    def _autosave(self) -> None:
        """Copy unsaved work to the recovery folder."""
        self._kept_at = self.clock()
        if self.document is self.state.kept or not self.document.objects:
            return
        try:
            if not self.saved:
                self.recovery.save(self.document, self.path)
            elif self.state.kept.origin == self.document.origin:
                self.recovery.clear()  # undo has led back to what is in the file
            self.state.kept, self._keeping_failed = self.document, False
        except PointglueError as error:
            if not self._keeping_failed:  # a full disk is reported once
                self._note(f"Autosave failed: {error}", "error")
            self._keeping_failed = True

    def _put_clock(self, status: Any = None) -> None:
        """Tell pages the frame and what the session is doing."""
        if status is None:
            waiting = "still" if self.state.preview is None else "paused"
            status = "playing" if self.state.playing else waiting
        preview = self.state.preview
        clock = Clock(
            frame=self.state.run.frame if self.state.run is not None else self.frame,
            status=status,
            milliseconds=round(preview.milliseconds / preview.steps, 2) if preview is not None else 0.0,
            grabbed=preview is not None and preview.hand is not None,
            problem=self.state.problem if self.state.run is None else "",
        )
        self.replica.put_clock(clock)

    def refresh(self) -> None:
        """Update the replica to what is shown now."""
        if self.state.run is not None:
            self._display.show_run(self.state.run)
        else:
            self._display.show_document(self.document, self.state.preview, self.poses, self.frame)
        self._put_clock()
        self.replica.put_state(self.page_state())

    def page_state(self) -> State:
        """Return all that pages show besides arrays and the clock."""
        path, found = self.path, self.recovery.found
        return page_state(
            self.state,
            self._display.binding_states(self.document) if self.state.run is None else [],
            path="" if path is None else self.files.display_path(path),
            folder=str(self.files.root),
            saved=self.saved,
            found="" if found is None else self.files.display_path(found),
        )
