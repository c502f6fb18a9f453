"""A cache on disk of bodies and meshes that take seconds to build and are the same every time."""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

from ..errors import InputError
from ..files import user_cache
from ..version import __version__

__all__ = ["cached"]

MOST_FILES = 300  # of a kind in the cache: the oldest are deleted
SOURCES = ("procrustes", "geometry", "assets", "particles")  # packages whose code determines the result

T = TypeVar("T")


def cached(
    kind: str,
    key: bytes,
    build: Callable[[], T],
    read: Callable[[Path], T],
    write: Callable[[Path, T], object],
) -> T:
    """Return what was built for a key before, or build it and write it to the user's cache folder.

    A file that is missing, damaged or cannot be written is no error: the result is built instead.

    Parameters
    ----------
    kind : str
        The folder within the cache folder.
    key : bytes
        All that the result depends on, except for the code.
    build : callable
        Builds it.
    read, write : callable
        Functions that read the result from a file, and write it to one.
    """
    folder = user_cache()
    if folder is None:
        return build()
    file = folder / kind / f"{hashlib.sha256(code_digest() + key).hexdigest()[:32]}.npz"
    try:
        return read(file)
    except (InputError, OSError, KeyError):
        built = build()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, built)
        for old in sorted(file.parent.glob("*.npz"), key=lambda one: one.stat().st_mtime)[:-MOST_FILES]:
            old.unlink(missing_ok=True)
    except (InputError, OSError):
        pass
    return built


@cache
def code_digest() -> bytes:
    """Return a digest of the code, so that results of older code are not taken for those of newer code."""
    digest = hashlib.sha256(__version__.encode())
    root = Path(__file__).parents[1]
    for path in sorted(file for name in SOURCES for file in (root / name).rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()
