"""Checkpoints: the complete state of a run in one file, from which it resumes bit-identically."""

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

VERSION = 3  # of the names in a state: 2 called the particles of the implicit solver positions
RESERVED = ("version", "scene_hash", "checksum")


def save_checkpoint(
    path: str | os.PathLike[str], arrays: Mapping[str, ArrayLike], *, scene_hash: str
) -> None:
    """Write arrays by name to a file; the checkpoint before it is kept next to it.

    The file appears when it is complete, and is on the disk when this returns.

    Parameters
    ----------
    path : str or path
        The file, whose name ends in ``.npz``.
    arrays : mapping of str to array_like
        Arrays, numbers and texts.
    scene_hash : str
        A text that differs from scene to scene.

    Raises
    ------
    InputError
        If an argument is not what it should be.
    PointglueError
        If the file cannot be written.
    """
    target = archive_path(path, "checkpoints")
    kept = {}
    for name, value in arrays.items():
        array = as_array(name, value)
        if not isinstance(name, str) or not name or name in RESERVED:
            raise InputError(
                f"arrays must have texts for names, other than {', '.join(RESERVED)}, got {name!r}"
            )
        if array.dtype.kind not in "biufcUS":
            raise InputError(f"{name} must hold numbers or text, got dtype {array.dtype}")
        kept[name] = array
    kept |= {"version": np.array(VERSION), "scene_hash": np.array(scene_hash)}
    kept["checksum"] = np.array(_checksum(kept))
    with explain_write_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    write_archive(target, kept, durable=True, keep=previous(target))


def load_checkpoint(path: str | os.PathLike[str], *, scene_hash: str) -> dict[str, Array] | None:
    """Read the last complete checkpoint.

    Parameters
    ----------
    path : str or path
        The file that :func:`save_checkpoint` has written.
    scene_hash : str
        The text that it was saved with.

    Returns
    -------
    dict of str to array, or None
        The arrays, bit-identical; numbers and texts are arrays without dimensions. None if there is no
        checkpoint.

    Raises
    ------
    InputError
        If the last two checkpoints are damaged, or belong to another scene; the message names the file.

    Warns
    -----
    PointglueWarning
        If the last one is damaged, and the one before it is read.
    """
    target = archive_path(path, "checkpoints")
    damage: list[InputError] = []
    for file in (target, previous(target)):
        if not file.exists():
            continue
        try:
            arrays = _verified(file)
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
    """Return the file of the checkpoint before the one at `path`."""
    return path.with_name(f"{path.stem}.previous{path.suffix}")


def _verified(file: Path) -> dict[str, Array]:
    """Return the arrays of a file, without version and checksum, or raise unless the checksum is right."""
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
    """Return the SHA-256 of all names, dtypes, shapes and bytes."""
    total = hashlib.sha256()
    for name, array in arrays.items():
        total.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()
