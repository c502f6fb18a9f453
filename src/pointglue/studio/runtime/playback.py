"""Playback of the frames of a run, finished or still being computed."""

from pathlib import Path
from time import time

import numpy as np

from ...checks import Array
from ...errors import InputError
from ...io import FrameStore, StoredObject
from ..protocol.replies import HandleState, ObjectState, RunState

__all__ = ["Playback"]

PREFIX = "run: "  # of names of objects of a run: scene files allow no colon
PATIENCE = 60.0  # s without a new frame after which a run counts as stopped, where files cannot be locked


class Playback:
    """The frames of a folder of `pointglue run`, one at a time.

    The current frame is in memory: whatever becomes of the folder, it can be shown.

    Parameters
    ----------
    folder : Path
        The folder of the run.
    label : str
        The folder as people read it.
    """

    def __init__(self, folder: Path, label: str) -> None:
        self.store, self.label = FrameStore.open(folder), label
        self._opened = self._stamp()
        numbers = self._present()
        self._show(numbers[0], numbers)

    def seek(self, frame: int) -> None:
        """Go to the last frame that is there by now, up to `frame`."""
        numbers = self._present()
        self._show(max((number for number in numbers if number <= frame), default=numbers[0]), numbers)

    def rewind(self) -> None:
        """Go to the first frame."""
        self._show(self.numbers[0], self.numbers)

    def advance(self) -> bool:
        """Go to the next frame; return False if there is none, or none yet."""
        numbers = self._present() if self.at_end else self.numbers
        later = [number for number in numbers if number > self.frame]
        if later:
            self._show(later[0], numbers)
        return bool(later)

    def resume(self) -> None:
        """Prepare to play: go to the first frame if this is the last one."""
        numbers = self._present()
        self._show(numbers[0] if self.frame >= numbers[-1] else self.frame, numbers)

    @property
    def growing(self) -> bool:
        """Whether frames are still being added; where files cannot be locked, whether the last is recent."""
        known = self.store.growing
        if known is not None:
            return known
        try:
            last = self.store.path(self.numbers[-1]).stat().st_mtime
        except OSError:
            return False
        return time() - last < PATIENCE

    @property
    def at_end(self) -> bool:
        """Whether this is the last known frame."""
        return self.frame >= self.numbers[-1]

    def _show(self, number: int, numbers: list[int]) -> None:
        """Read one of the frames of these numbers, and make it the current one."""
        self._require_same()
        positions = self.store.positions(self.store.read(number))
        self._arrays = {
            (PREFIX + look.name, "particles_now" if look.faces is None else "vertices"): positions[look.name]
            for look in self.store.objects
        }
        self.frame, self.numbers = number, numbers

    def _present(self) -> list[int]:
        """Return the numbers of the frames that exist now."""
        self._require_same()
        try:
            numbers = self.store.numbers()
        except OSError as error:
            raise InputError(f"{self.label}: cannot be read: {error.strerror or error}") from error
        if not numbers:
            raise InputError(f"{self.label}: has no frames yet")
        return numbers

    def _require_same(self) -> None:
        """Raise InputError if the folder has another run than when it was opened."""
        if self._stamp() != self._opened:
            raise InputError(f"{self.label}: holds another run now: open it again")

    def _stamp(self) -> tuple[int, ...]:
        """Return what distinguishes this run from another in its folder: its description is written once."""
        file = self.store.directory / "scene.npz"
        try:
            about = file.stat()
        except OSError as error:
            raise InputError(f"{self.label}: cannot be read any more: {error.strerror or error}") from error
        return about.st_ino, about.st_size, about.st_mtime_ns

    def rest_arrays(self) -> dict[tuple[str, str], Array]:
        """Return the arrays that are the same in all frames, by object and channel."""
        found: dict[tuple[str, str], Array] = {}
        for look in self.store.objects:
            name = PREFIX + look.name
            found[name, "rest"] = look.rest
            found[name, "faces"] = (
                np.empty((0, 3), np.uint32) if look.faces is None else look.faces.astype(np.uint32)
            )
            if look.segments is not None:
                found[name, "edges"] = look.segments.astype(np.uint32)
            if look.faces is None:
                found[name, "particles"] = look.rest
                found[name, "radii"] = np.full((len(look.rest), 3), self._radius(look))
        return found

    def arrays(self) -> dict[tuple[str, str], Array]:
        """Return the positions of the current frame, by object and channel."""
        return self._arrays

    def _radius(self, look: StoredObject) -> float:
        """Return the radius of the points of an object [m], a hundredth of its size if it has none."""
        return look.radius or 0.01 * float(np.ptp(look.rest, axis=0).max())

    @property
    def state(self) -> RunState:
        """What pages are told of the run."""
        first, last = self.numbers[0], self.numbers[-1]
        return RunState(folder=self.label, first=first, last=last, rate=self.store.rate, growing=self.growing)

    def objects(self) -> list[ObjectState]:
        """Return what pages are told of the objects of the run."""
        nothing: list[HandleState] = []
        return [
            ObjectState(
                name=PREFIX + look.name,
                kind="run",
                table={},
                color="#" + "".join(f"{round(255 * c):02x}" for c in look.color),
                visible=True,
                vertices=0 if look.faces is None else len(look.rest),
                particles=len(look.rest) if look.faces is None else 0,
                edges=0 if look.segments is None else len(look.segments),
                groups=0,
                pinned=0,
                handles=nothing,
                links=[],
                edited=True,
            )
            for look in self.store.objects
        ]
