"""Run scenes: frames one after the other, written to disk as they come; stopped runs can be resumed."""

import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any, Self

import numpy as np

from ..elastic import StepError
from ..errors import InputError, PointglueError, PointglueWarning, SceneError
from ..io.checkpoints import load_checkpoint
from ..io.export import export_run
from ..io.frame_records import Frame
from ..io.frames import FrameStore
from ..io.signals import deferred
from ..io.stats import StatsLog
from .build.builder import build_scene
from .checkpointing import FrameWriter
from .identity import SceneIdentity, differences
from .remedies import explained
from .schema.loading import LoadedScene, load_scene
from .simulation import SimulationState

__all__ = ["Run", "run_scene"]


def run_scene(
    scene: str | Path | Mapping[str, Any] | LoadedScene,
    out: str | Path | None = None,
    *,
    resume: bool = False,
    replace: bool = False,
    overrides: Mapping[str, Any] | None = None,
) -> "Run":
    """Run a scene: return an iterator over its frames, each computed when it is asked for.

    Parameters
    ----------
    scene : str, Path, mapping or LoadedScene
        A TOML file, its tables, or what :func:`load_scene` returns.
    out : str or Path, optional
        A folder. Every frame is written there, and after the last what the scene's `output` asks for.
    resume : bool
        Whether to go on after the last checkpoint in `out`. Frames are bit-identical to those of a run that
        was not stopped; the iterator has only those that are left.
    replace : bool
        Whether to begin anew where another run has been.
    overrides : mapping, optional
        Values by dotted keys, as in :func:`load_scene`.

    Returns
    -------
    Run
        The iterator over the frames.

    Raises
    ------
    SceneError
        If anything is wrong with the scene, all of which the error lists, or if `out` holds another run.

    Examples
    --------
    ::

        for frame in run_scene("tree.toml", out="tree"):
            print(frame.number, frame.stats)
    """
    if isinstance(scene, LoadedScene):
        if overrides:
            raise InputError("overrides are for scenes that are not loaded yet: give them to load_scene")
        loaded = scene
    else:
        loaded = load_scene(scene, overrides)
    return Run(loaded, None if out is None else Path(out), resume=resume, replace=replace)


class Run(Iterator[Frame]):
    """A run of a scene: an iterator over its frames. Close it if you stop before the end.

    Parameters
    ----------
    scene : LoadedScene
        The scene.
    out : Path, optional
        A folder for the frames.
    resume, replace : bool
        As in :func:`run_scene`.

    Attributes
    ----------
    scene : LoadedScene
        The scene.
    simulation : Simulation
        The engines that compute the frames.
    identity : SceneIdentity
        What tells the run from those of other scenes.
    store : FrameStore or None
        The frames on disk.
    files : list of Path
        The files written besides the frames, once all frames are written.
    numbers : range
        Numbers of the frames that were left at the beginning.

    Raises
    ------
    SceneError
        If anything is wrong with the scene, all of which the error lists, or if `out` holds another run.
    """

    def __init__(
        self, scene: LoadedScene, out: Path | None = None, *, resume: bool = False, replace: bool = False
    ) -> None:
        self.scene = scene
        with deferred() as check:
            self.simulation = build_scene(scene, lambda _: check())
        self.identity = SceneIdentity.of(scene)
        self.store: FrameStore | None = None
        self.files: list[Path] = []
        state = None
        if out is not None:
            self.store, state = self._opened(out, resume, replace)
        frames = self.simulation.frames
        self.numbers = range(frames.start if state is None else state.number + 1, frames.end + 1)
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
        """Stop the run; frames that have been returned are on disk then."""
        self._frames.close()
        if self.store is not None:
            self.store.close()

    def _opened(self, out: Path, resume: bool, replace: bool) -> tuple[FrameStore, SimulationState | None]:
        """Return the store of the frames, and the state to resume from if there is one."""
        begun = (out / "scene.npz").exists()
        if begun and not resume and not replace:
            raise SceneError(
                f"{out}: holds a run already: --resume it, --replace it, or choose another folder"
            )
        if begun and resume:
            store = FrameStore.open(out, write=True)
            try:
                if store.scene_hash != self.identity.hash:
                    raise SceneError(self._other(store))
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
        store = FrameStore.create(
            out,
            looks,
            rate=rate,
            scene_hash=self.identity.hash,
            inputs=self.identity.inputs,
            replace=begun,
        )
        return store, None

    def _other(self, store: FrameStore) -> str:
        """Return why a run of another scene is not resumed."""
        out = store.directory
        changes = differences(store.inputs, self.identity.inputs) if store.inputs else ""
        if not changes:  # of an earlier version, which did not store its inputs
            return (
                f"{out}: holds the run of another scene, or the scene or a mesh has changed since: "
                "it cannot be resumed. Give it back as it was, or run it anew"
            )
        return (
            f"{out}: holds the run of another scene and cannot be resumed: {changes}. "
            "Give it back as it was, --replace the run, or choose another folder"
        )

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
            arrays = load_checkpoint(store.checkpoint, scene_hash=self.identity.hash)
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
        writer = None
        try:
            writer = self._writer(state)
            while state is None or state.number < last:
                begin = perf_counter()
                with deferred() as check:
                    state = self._next(state, check)
                    frame = simulation.frame(state)
                    if writer is not None:
                        writer.put(frame, state, perf_counter() - begin)
                yield frame
            if writer is not None:
                writer.close()
            self._export()
        finally:
            if writer is not None:
                writer.abandon()
            if self.store is not None:
                self.store.close()

    def _writer(self, state: SimulationState | None) -> FrameWriter | None:
        """Return the writer of the frames after a state, or None for a run without a folder."""
        if self.store is None:
            return None
        before = range(0) if state is None else range(self.simulation.frames.start, state.number + 1)
        return FrameWriter(
            self.store, StatsLog(self.store, before), self.simulation, scene_hash=self.identity.hash
        )

    def _next(self, state: SimulationState | None, watch: Callable[[], object]) -> SimulationState:
        number = self.simulation.frames.start if state is None else state.number + 1
        try:
            return self.simulation.start() if state is None else self.simulation.advance(state, watch=watch)
        except (PointglueError, ArithmeticError, np.linalg.LinAlgError, MemoryError) as error:
            reason = str(error) or type(error).__name__
            if isinstance(error, StepError):
                reason = explained(error, self.scene.tables)
            raise SceneError(f"frame {number} cannot be computed: {reason}") from error

    def _export(self) -> None:
        if self.store is None or not self.store.numbers():
            return
        self.files.append(self.store.stats)
        for format in dict.fromkeys(self.scene.tables.output.formats):
            self.files.append(export_run(self.store, format=format))
