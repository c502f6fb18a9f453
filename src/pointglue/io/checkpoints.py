"""Checkpoints: the whole state of a run in one file, from which it goes on as if nothing had happened."""

import hashlib
import os
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from ..checks import Array, as_array
from ..errors import InputError, PointglueWarning
from ..files import explain_write_errors
from .archives import archive_path, read_archive, write_archive

__all__ = ["load_checkpoint", "previous", "save_checkpoint"]

VERSION = 1
OWN = ("version", "scene_hash", "checksum")


def save_checkpoint(
    path: str | os.PathLike[str], arrays: Mapping[str, ArrayLike], *, scene_hash: str
) -> None:
    """Write arrays, numbers and texts by name to an .npz file; the one before stays beside it.

    The file appears when it is complete, and is on the disk when this returns. `scene_hash` is any text that
    tells this scene from others.
    """
    target = archive_path(path, "checkpoints")
    kept = {}
    for name, value in arrays.items():
        array = as_array(name, value)
        if not isinstance(name, str) or not name or name in OWN:
            raise InputError(f"arrays must have texts for names, other than {', '.join(OWN)}, got {name!r}")
        if array.dtype.kind not in "biufcUS":
            raise InputError(f"{name} must hold numbers or text, got dtype {array.dtype}")
        kept[name] = array
    kept |= {"version": np.array(VERSION), "scene_hash": np.array(scene_hash)}
    kept["checksum"] = np.array(_checksum(kept))
    with explain_write_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    write_archive(target, kept, durable=True, keep=previous(target))


def load_checkpoint(path: str | os.PathLike[str], *, scene_hash: str) -> dict[str, Array] | None:
    """The arrays of the last whole checkpoint, to the last bit; numbers and texts are arrays of no dimension.

    None if there is no checkpoint. Where the last one is damaged there is a warning, and the one before is
    taken. Both damaged, or of another scene: the error names the file.
    """
    target = archive_path(path, "checkpoints")
    damage: list[InputError] = []
    for file in (target, previous(target)):
        if not file.exists():
            continue
        try:
            arrays = _whole(file)
        except InputError as error:
            damage.append(error)
            continue
        if damage:
            warnings.warn(f"{damage[0]}; going on from the checkpoint before", PointglueWarning, stacklevel=2)
        if arrays.pop("scene_hash").item() != scene_hash:
            raise InputError(
                f"{file}: is of another scene, or the scene has changed since: "
                "run it from the beginning, or give the scene back as it was"
            )
        return arrays
    if damage:
        raise damage[0]
    return None


def previous(path: Path) -> Path:
    """Where the checkpoint before the one at `path` is."""
    return path.with_name(f"{path.stem}.previous{path.suffix}")


def _whole(file: Path) -> dict[str, Array]:
    """What is in a file, without version and checksum, if it is what was written."""
    arrays = read_archive(file, "checkpoint")
    checksum, version = (arrays.get(name, np.array(None)).item() for name in ("checksum", "version"))
    arrays.pop("checksum", None)
    if "scene_hash" not in arrays or checksum != _checksum(arrays):
        raise InputError(f"{file}: is damaged or no checkpoint: its checksum does not fit")
    if version != VERSION:
        raise InputError(f"{file}: has version {version}, but this pointglue reads {VERSION}")
    del arrays["version"]
    return arrays


def _checksum(arrays: Mapping[str, Array]) -> str:
    """Of names, kinds, shapes and every byte."""
    total = hashlib.sha256()
    for name, array in arrays.items():
        total.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()
