"""Body files: an OrientedBody with its visual mesh in one .npz file; the same body gives the same bytes."""

import os
from typing import Any

import numpy as np

from ..checks import Array
from ..errors import InputError
from ..files import explain_write_errors
from ..particles import OrientedBody
from ..particles.authoring.skinning import Skin
from .archives import archive_path, read_archive, write_archive

__all__ = ["load_body", "save_body"]

VERSION = 2
# Fields stored as they are. Groups have different lengths: they are stored one after the other, with sizes.
RAGGED = ("groups", "hulls", "visual")
BODY_FIELDS = [name for name in OrientedBody.__dataclass_fields__ if name not in RAGGED]
# Fields that files of earlier versions do not have.
LATER_FIELDS = {"pivots", "young", "density"}
SKIN_FIELDS = list(Skin.__dataclass_fields__)


def save_body(path: str | os.PathLike[str], body: OrientedBody) -> None:
    """Write a body to a file, which appears when it is complete. A missing folder is made.

    Parameters
    ----------
    path : str or path
        The file, whose name ends in ``.npz``.
    body : OrientedBody
        The body.

    Raises
    ------
    InputError
        If an argument is not what it should be.
    PointglueError
        If the file cannot be written.
    """
    target = archive_path(path, "body files")
    if not isinstance(body, OrientedBody):
        raise InputError(f"body must be an OrientedBody, got {type(body).__name__}")
    arrays = {"version": np.array(VERSION), **{name: np.asarray(getattr(body, name)) for name in BODY_FIELDS}}
    arrays["groups"] = np.concatenate([np.empty(0, np.int64), *body.groups])
    arrays["group_sizes"] = np.array([len(group) for group in body.groups], np.int64)
    arrays["hulls"] = np.concatenate([np.empty((0, 3)), *body.hulls])
    arrays["hull_sizes"] = np.array([len(points) for points in body.hulls], np.int64)
    if body.visual is not None:
        arrays |= {f"visual_{name}": getattr(body.visual, name) for name in SKIN_FIELDS}
    with explain_write_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    write_archive(target, arrays)


def load_body(path: str | os.PathLike[str]) -> OrientedBody:
    """Read a body that :func:`save_body` has written.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    OrientedBody
        The body.

    Raises
    ------
    InputError
        If the file is missing, damaged, or from a later version; the message names it.
    """
    file = archive_path(path, "body files")
    arrays = read_archive(file, "body file")
    try:
        return _body(arrays)
    except InputError as error:
        raise InputError(f"{file}: {error}") from error


def _body(arrays: dict[str, Array]) -> OrientedBody:
    """Return the body that arrays by name describe, or raise."""
    version = arrays.pop("version", np.array(None))
    if version.shape != () or version.dtype.kind not in "iu":
        raise InputError("is no body file: it has no version")
    if version > VERSION:
        raise InputError(f"has version {version}, but this pointglue reads up to {VERSION}: update it")
    if version < 1:
        raise InputError(f"has version {version}, but the first is 1")
    skin = [f"visual_{name}" for name in SKIN_FIELDS]
    has_skin = any(name in arrays for name in skin)
    if version == 1:
        arrays |= {"hulls": np.empty((0, 3)), "hull_sizes": np.zeros(len(arrays.get("group_sizes", ())), int)}
    wanted = [*BODY_FIELDS, "groups", "group_sizes", "hulls", "hull_sizes", *(skin if has_skin else [])]
    missing, unknown = set(wanted) - set(arrays) - LATER_FIELDS, set(arrays) - set(wanted)
    if missing or unknown:
        raise InputError(f"has no entry {min(missing)!r}" if missing else f"has an entry {min(unknown)!r}")
    fields: dict[str, Any] = {name: arrays[name] for name in BODY_FIELDS if name in arrays}
    loose, members, sizes = arrays["loose"], arrays["groups"], arrays["group_sizes"]
    if loose.shape == () and loose.dtype == np.bool_:
        fields["loose"] = bool(loose)
    fields["groups"] = _split("group", members, sizes)
    fields["hulls"] = _split("hull", arrays["hulls"], arrays["hull_sizes"])
    if has_skin:
        fields["visual"] = Skin(*(arrays[name] for name in skin))
    return OrientedBody(**fields)


def _split(name: str, values: Array, sizes: Array) -> list[Array]:
    """Return arrays that were stored one after the other, or raise."""
    whole = sizes.ndim == 1 and sizes.dtype.kind in "iu" and (sizes >= 0).all()
    if not whole or values.ndim == 0 or len(values) != sizes.sum():
        raise InputError(f"{name}_sizes must add up to the length of {name}s, {len(np.ravel(values))}")
    return np.split(values, np.cumsum(sizes))[:-1]
