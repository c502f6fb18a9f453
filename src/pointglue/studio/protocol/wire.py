"""The wire format of updates: arrays have growing numbers, and a page is sent what it has not seen."""

import json
import struct
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...checks import Array
from .replies import Clock, State

__all__ = ["Replica", "pack"]

Key = tuple[str, str]
"""Object and channel."""
# Channels of positions, which may be sent as 16-bit numbers.
QUANTISABLE = ("rest", "vertices")
# Types on the wire and in memory, by the kind of NumPy dtype.
_TYPES = {"f": ("f4", np.float32), "u": ("u4", np.uint32), "i": ("i4", np.int32)}


class Replica:
    """What pages show: arrays, the state and the clock, each with the number of its last change.

    The thread of the session writes and the one that sends reads; a lock guards both.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._arrays: dict[Key, tuple[int, Array | None]] = {}
        self._state: tuple[int, State | None] = (0, None)  # with the number of its last change
        self.clock = Clock(frame=1, status="still", milliseconds=0.0, grabbed=False)

    @property
    def count(self) -> int:
        """The number of the last change."""
        return self._count

    def get(self, object: str, channel: str) -> Array | None:
        """Return the array of a channel, None if there is none."""
        return self._arrays.get((object, channel), (0, None))[1]

    def put(self, object: str, channel: str, array: ArrayLike | None) -> None:
        """Replace the array of a channel, or remove it for None. It must not be changed afterwards."""
        kept = None
        if array is not None:
            given = np.asarray(array)
            kept = np.ascontiguousarray(given, _TYPES[given.dtype.kind][1])
        with self._lock:
            old = self._arrays.get((object, channel), (0, None))[1]
            if kept is None and old is None:
                return
            if kept is not None and old is not None and kept.shape == old.shape and np.array_equal(kept, old):
                return
            self._count += 1
            self._arrays[object, channel] = (self._count, kept)

    def keep(self, objects: set[str]) -> None:
        """Remove the arrays of all other objects."""
        for name, channel in list(self._arrays):
            if name not in objects:
                self.put(name, channel, None)

    def put_state(self, state: State) -> None:
        """Replace the state."""
        with self._lock:
            if state != self._state[1]:
                self._count += 1
                self._state = (self._count, state)

    def put_clock(self, clock: Clock) -> None:
        """Replace the clock."""
        with self._lock:
            if clock != self.clock:
                self._count += 1
                self.clock = clock

    def since(self, number: int) -> tuple[int, Clock, State | None, dict[Key, Array | None]]:
        """Return the last number, the clock, and the state and arrays that changed after `number`."""
        with self._lock:
            changed = {key: array for key, (at, array) in self._arrays.items() if at > number}
            if number == 0:
                changed = {key: array for key, array in changed.items() if array is not None}
            at, state = self._state
            return self._count, self.clock, state if at > number else None, changed


def pack(
    number: int,
    clock: Clock,
    state: State | None,
    arrays: Mapping[Key, Array | None],
    *,
    quantise: bool = False,
) -> bytes:
    """Return an update as bytes: length of the header, header, and arrays, each from a multiple of 4 on.

    Parameters
    ----------
    number : int
        The number of the last change.
    clock : Clock
        The clock.
    state : State or None
        The state, None if it has not changed.
    arrays : mapping
        The arrays that have changed, by object and channel; None for those that are gone.
    quantise : bool, default False
        Whether positions are sent as 16-bit numbers.

    Returns
    -------
    bytes
        The binary message; its header is an `Update`.
    """
    parts: list[dict[str, Any]] = []
    blocks: list[bytes] = []
    offset = 0
    for (object, channel), array in arrays.items():
        part: dict[str, Any] = {
            "object": object,
            "channel": channel,
            "dtype": "f4",
            "shape": None,
            "offset": offset,
        }
        if array is not None:
            part["dtype"] = _TYPES[array.dtype.kind][0]
            if quantise and channel in QUANTISABLE and len(array):
                sent, low, step = _quantised(array)
                part |= {"dtype": "u2", "low": low, "step": step}
            else:
                sent = array
            part["shape"] = list(sent.shape)
            block = sent.tobytes()
            block += bytes(-len(block) % 4)
            blocks.append(block)
            offset += len(block)
        parts.append(part)
    header = {
        "type": "update",
        "number": number,
        "clock": clock.model_dump(),
        "state": None if state is None else state.model_dump(),
        "arrays": parts,
    }
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 4) % 4)
    return b"".join([struct.pack("<I", len(text)), text, *blocks])


def _quantised(array: Array) -> tuple[Array, list[float], list[float]]:
    """Return positions (n, 3) as 16-bit numbers within their box, its corner and the step of a number."""
    low, high = array.min(0).astype(float), array.max(0).astype(float)
    step = np.maximum((high - low) / 65535, 1e-30)
    return np.rint((array - low) / step).clip(0, 65535).astype(np.uint16), low.tolist(), step.tolist()
