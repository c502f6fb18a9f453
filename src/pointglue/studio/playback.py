"""Frames of a finished run."""

from pathlib import Path

import numpy as np

from ..checks import Array
from ..errors import InputError
from ..io import FrameStore, Look
from .replies import HandleState, ObjectState, RunState

__all__ = ["Playback"]

PREFIX = "run: "


class Playback:
    """A folder of `pointglue run`, frame by frame. Its objects have a prefix that no others have."""

    def __init__(self, folder: Path, shown: str) -> None:
        self.store, self.shown = FrameStore.open(folder), shown
        self.numbers = self.store.numbers()
        if not self.numbers:
            raise InputError(f"{shown}: has no frames yet")
        self.frame = self.numbers[0]

    def seek(self, frame: int) -> None:
        """Go to the last frame that is there, up to `frame`."""
        self.frame = max((number for number in self.numbers if number <= frame), default=self.numbers[0])

    def advance(self) -> bool:
        """Go to the next frame; False at the end."""
        later = [number for number in self.numbers if number > self.frame]
        self.frame = later[0] if later else self.frame
        return bool(later)

    def still(self) -> dict[tuple[str, str], Array]:
        """What does not change from frame to frame."""
        found: dict[tuple[str, str], Array] = {}
        for look in self.store.looks:
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
        """Where everything is in this frame."""
        places = self.store.positions(self.store.read(self.frame))
        found = {}
        for look in self.store.looks:
            channel = "particles_now" if look.faces is None else "vertices"
            found[PREFIX + look.name, channel] = places[look.name]
        return found

    def _radius(self, look: Look) -> float:
        return look.radius or 0.01 * float(np.ptp(look.rest, axis=0).max())

    @property
    def state(self) -> RunState:
        """For the page."""
        return RunState(folder=self.shown, first=self.numbers[0], last=self.numbers[-1], rate=self.store.rate)

    def objects(self) -> list[ObjectState]:
        """For the page."""
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
            for look in self.store.looks
        ]
