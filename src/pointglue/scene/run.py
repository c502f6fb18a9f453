"""Run scenes: frames one after the other, on the disk as they come, and on from where a run was stopped."""

import hashlib
import json
import queue
import threading
import warnings
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any, Self

import numpy as np

from .. import __version__
from ..errors import InputError, PointglueError, PointglueWarning, SceneError
from ..io.checkpoints import load_checkpoint, save_checkpoint
from ..io.frames import Frame, FrameForm, FrameStore, PackedFrame
from ..io.sequences import write_sequence
from ..io.usd import write_usd
from .animated import sequence
from .build import build
from .load import LoadedScene, load_scene
from .schema import AnimatedObject
from .simulation import Simulation, SimulationState

__all__ = ["Run", "run_scene", "scene_hash"]

SHARE = 0.005  # of the time that checkpoints take at most
SLOW = 0.1  # s a frame, from which on it is worth the time to have it on the disk, come what may


def run_scene(
    scene: str | Path | Mapping[str, Any] | LoadedScene,
    out: str | Path | None = None,
    *,
    resume: bool = False,
    replace: bool = False,
    overrides: Mapping[str, Any] | None = None,
) -> "Run":
    """The frames of a scene, an iterator: each is computed when it is asked for.

    With a folder `out`, every frame is written there, and when all are, what the scene's `output` asks for.
    `resume` goes on after the last checkpoint that is there, to the same frames to the last bit, and gives
    only those that are left; `replace` begins anew where another run has been. `overrides` are as in
    :func:`load_scene`. Raises SceneError with all that is wrong with the scene.
    """
    if isinstance(scene, LoadedScene):
        if overrides:
            raise InputError("overrides are for scenes that are not loaded yet: give them to load_scene")
        loaded = scene
    else:
        loaded = load_scene(scene, overrides)
    return Run(loaded, None if out is None else Path(out), resume=resume, replace=replace)


class Run(Iterator[Frame]):
    """A scene on its way: iterate over it, and close it if you stop before the end."""

    def __init__(
        self, scene: LoadedScene, out: Path | None = None, *, resume: bool = False, replace: bool = False
    ) -> None:
        self.scene, self.simulation = scene, build(scene)
        self.hash = scene_hash(scene)
        self.store: FrameStore | None = None
        self.files: list[Path] = []
        """What has been written besides the frames, once all frames are."""
        state = None
        if out is not None:
            self.store, state = self._opened(out, resume, replace)
        frames = self.simulation.frames
        self.numbers = range(frames.start if state is None else state.number + 1, frames.end + 1)
        """Of the frames that are left at the beginning."""
        self._frames = self._run(state)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Frame:
        return next(self._frames)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop; frames that have been handed out are on the disk then."""
        self._frames.close()
        if self.store is not None:
            self.store.close()

    def _opened(self, out: Path, resume: bool, replace: bool) -> tuple[FrameStore, SimulationState | None]:
        """The folder, and the state to go on from if there is one."""
        begun = (out / "scene.npz").exists()
        if begun and not resume and not replace:
            raise SceneError(
                f"{out}: holds a run already: --resume it, --replace it, or choose another folder"
            )
        if begun and resume:
            store = FrameStore.open(out, write=True)
            try:
                if store.scene_hash != self.hash:
                    raise SceneError(
                        f"{out}: holds the run of another scene, or the scene or a mesh has changed since: "
                        "it cannot be resumed. Give it back as it was, or run it anew"
                    )
                self._check_length(store)
                state = self._resumed(store)
            except BaseException:
                store.close()
                raise
            if state is not None:
                return store, state
            store.close()
        rate = self.simulation.frames.rate
        looks = self.simulation.looks
        store = FrameStore.create(out, looks, rate=rate, scene_hash=self.hash, replace=begun)
        return store, None

    def _check_length(self, store: FrameStore) -> None:
        """Raise SceneError if there are frames after the last one wanted."""
        frames, written = self.simulation.frames, store.numbers()
        if written and written[-1] > frames.end:
            count = written[-1] - frames.start + 1
            raise SceneError(
                f"{store.directory}: holds {count:,} frames, but frames.count is {frames.count:,}: a run can "
                f"be made longer, not shorter. Resume it with frames.count={count} or more, --replace it, "
                "or choose another folder"
            )

    def _resumed(self, store: FrameStore) -> SimulationState | None:
        try:
            arrays = load_checkpoint(store.checkpoint, scene_hash=self.hash)
        except InputError as error:
            warnings.warn(f"{error}; running from the first frame", PointglueWarning, stacklevel=4)
            return None
        if arrays is None:
            return None
        state = self.simulation.unpack(arrays)
        lost = store.lost(range(self.simulation.frames.start, state.number + 1))
        if lost:
            warnings.warn(
                f"{store.path(lost[0])}: is missing or cut short, though later frames are there; "
                "running from the first",
                PointglueWarning,
                stacklevel=4,
            )
            return None
        return state

    def _run(self, state: SimulationState | None) -> Generator[Frame, None, None]:
        simulation, last = self.simulation, self.simulation.frames.end
        writer = None if self.store is None else _Writer(self.store, simulation, self.hash)
        try:
            while state is None or state.number < last:
                state = self._next(state)
                frame = simulation.frame(state)
                if writer is not None:
                    writer.put(frame, state)
                yield frame
            if writer is not None:
                writer.close()
            self._export()
        finally:
            if writer is not None:
                writer.abandon()
            if self.store is not None:
                self.store.close()

    def _next(self, state: SimulationState | None) -> SimulationState:
        number = self.simulation.frames.start if state is None else state.number + 1
        try:
            return self.simulation.start() if state is None else self.simulation.advance(state)
        except (PointglueError, ArithmeticError, np.linalg.LinAlgError, MemoryError) as error:
            reason = str(error) or type(error).__name__
            raise SceneError(f"frame {number} cannot be computed: {reason}") from error

    def _export(self) -> None:
        if self.store is None or not self.store.numbers():
            return
        self.files.append(self.store.write_stats())
        for format in dict.fromkeys(self.scene.tables.output.formats):
            if format == "usd":
                self.files.append(write_usd(self.store))
            else:
                self.files.append(write_sequence(self.store, format=format)[0].parent)


class _Writer:
    """Writes frames and checkpoints while the next frame is computed, in the order in which they come.

    A checkpoint follows its frame, but checkpoints take no more than a small share of the time: where frames
    come quickly there is one now and then, and a run that is killed does the last moment's work again. Such
    frames are left to the system to bring to the disk: a power cut, unlike a kill, may take the last ones,
    and a run that is resumed then finds them missing.
    """

    def __init__(self, store: FrameStore, simulation: Simulation, scene_hash: str) -> None:
        self._store, self._simulation, self._hash = store, simulation, scene_hash
        # Two forms go round, one to be filled in while the other is written.
        self._forms: queue.SimpleQueue[FrameForm] = queue.SimpleQueue()
        self._frames: queue.SimpleQueue[tuple[PackedFrame, SimulationState] | None] = queue.SimpleQueue()
        for _ in range(2):
            self._forms.put(store.form())
        self._error: BaseException | None = None
        self._synced = perf_counter()
        self._thread = threading.Thread(target=self._work, name="pointglue writer", daemon=True)
        self._thread.start()

    def put(self, frame: Frame, state: SimulationState) -> None:
        """Hand over a frame; what went wrong with those before is raised here."""
        self._raise()
        # Packed here, where its arrays still are in the caches, and nobody has changed them yet.
        self._frames.put((self._store.pack(frame, self._forms.get()), state))

    def close(self) -> None:
        """Return when all is on the disk."""
        self.abandon()
        self._raise()

    def abandon(self) -> None:
        """The same, whatever went wrong."""
        if self._thread.is_alive():
            self._frames.put(None)
            self._thread.join()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        waiting: SimulationState | None = None  # the last that has no checkpoint yet
        due = 0.0
        while (item := self._frames.get()) is not None:
            frame, state = item
            if self._error is None:
                try:
                    self._store.write(frame)
                    waiting, begin = state, perf_counter()
                    if begin >= due:
                        self._checkpoint(waiting)
                        waiting, end = None, perf_counter()
                        due = end + (end - begin) / SHARE
                except BaseException as error:
                    self._error = error
            self._forms.put(frame.form)  # in any case, so that nobody waits for ever
        try:
            if waiting is not None and self._error is None:
                self._checkpoint(waiting)
        except BaseException as error:
            self._error = error

    def _checkpoint(self, state: SimulationState) -> None:
        now = perf_counter()
        if now - self._synced > SLOW * self._store.unsynced:
            self._store.sync()
            self._synced = now
        save_checkpoint(self._store.checkpoint, self._simulation.pack(state), scene_hash=self._hash)


def scene_hash(scene: LoadedScene) -> str:
    """What tells a run from runs of other scenes: all tables and files that change what comes out."""
    told = scene.tables.model_dump(mode="json", by_alias=True, exclude={"title", "output"})
    del told["frames"]["count"]  # a run may be made longer
    digest = hashlib.sha256(json.dumps([__version__, told], sort_keys=True).encode())
    for item in scene.tables.objects.values():
        names = [getattr(getattr(item, "mesh", None), "file", None), getattr(item, "body", None)]
        paths = [scene.source.folder / name for name in filter(None, names)]
        if isinstance(item, AnimatedObject) and paths:
            paths = sequence(paths[0])
        for path in paths:
            try:
                digest.update(path.read_bytes())
            except OSError as error:
                raise SceneError(f"{path}: cannot be read: {error.strerror}") from error
    return digest.hexdigest()
