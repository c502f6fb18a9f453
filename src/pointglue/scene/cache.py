"""Bodies and meshes that take seconds to make and are the same every time, kept on disk for the next time."""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

from .. import __version__
from ..errors import InputError
from ..files import user_cache

__all__ = ["kept"]

MOST = 300  # files of a kind: the oldest make room
SOURCES = ("procrustes", "geometry", "assets", "particles")  # packages whose code says what comes out

T = TypeVar("T")


def kept(
    kind: str,
    key: bytes,
    make: Callable[[], T],
    read: Callable[[Path], T],
    write: Callable[[Path, T], object],
) -> T:
    """Return what has been made of a key before, or make it and keep it in the user's cache folder.

    A file that is missing, damaged or cannot be written is no error: the thing is made then.
    """
    folder = user_cache()
    if folder is None:
        return make()
    file = folder / kind / f"{hashlib.sha256(_code() + key).hexdigest()[:32]}.npz"
    try:
        return read(file)
    except (InputError, OSError, KeyError):
        built = make()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, built)
        for old in sorted(file.parent.glob("*.npz"), key=lambda one: one.stat().st_mtime)[:-MOST]:
            old.unlink(missing_ok=True)
    except (InputError, OSError):
        pass
    return built


@cache
def _code() -> bytes:
    """Return what changes with the code: what older code has made is not taken for what newer code makes."""
    digest = hashlib.sha256(__version__.encode())
    root = Path(__file__).parents[1]
    for path in sorted(file for name in SOURCES for file in (root / name).rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()
