"""The handles file (docs/reference/handles-file.md): where handles are at rest and where they go."""

import difflib
import json
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..checks import Array, is_integer
from ..errors import InputError

__all__ = ["Handles", "read_handles"]

NUMBERS = ("falloff", "stretch", "damping")
PER_HANDLE = ("weights", "radii")
DISTANCES = ("inside", "euclidean")
KEYS = ("rest", "now", "frames", "names", *NUMBERS, *PER_HANDLE, "rotations", "distance")


@dataclass(frozen=True, eq=False)
class Handles:
    """The content of a handles file.

    Parameters
    ----------
    path : Path
        The file.
    rest : (H, 3)
        Where the handles are at rest.
    frames : (F, H, 3)
        Where they are in each frame; a file with "now" has one.
    rotations : (F, H, 3, 3) or None
        Their rotations in each frame; None if they have no orientations.
    animated : bool
        Whether the file has "frames", even if only one.
    names : tuple of str or None
        The names of the handles.
    options : dict
        The options among falloff, stretch, damping, weights, radii and distance that the file sets.
    """

    path: Path
    rest: Array
    frames: Array
    rotations: Array | None
    animated: bool
    names: tuple[str, ...] | None
    options: dict[str, Any]

    def named(self, message: str) -> str:
        """Return `message` with names added to the handles that it mentions by number."""

        def add(found: re.Match[str]) -> str:
            return re.sub(r"\d+", lambda number: _labelled(number[0], self.names), found[0])

        return re.sub(r"\bhandles? (\d+ and \d+|\d+|\[[\d, ]+\])", add, message)


def read_handles(path: str | os.PathLike[str]) -> Handles:
    """Read a handles file.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    Handles
        The checked content of the file.

    Raises
    ------
    InputError
        If the file is missing or wrong; the message names it and says where in it the problem is.
    """
    file = Path(path)
    try:
        return _parse(file, _load(file))
    except _FileError as problem:
        raise InputError(f"{file}: {problem}") from problem.__cause__


class _FileError(Exception):
    """A problem of the file; `read_handles` adds its name."""


def _load(file: Path) -> dict[str, Any]:
    """Return the JSON object of a file, or raise."""
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        raise _FileError("no such file") from error
    except OSError as error:
        raise _FileError(f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _FileError("is not a text file in UTF-8") from error
    try:
        content = json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise _FileError(f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    except (
        ValueError,
        RecursionError,
    ) as error:  # a number of thousands of digits, or thousands of nested brackets
        raise _FileError(f"cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise _FileError(f'must hold an object {{"rest": ..., "now": ...}}, got {_shown(content)}')
    return content


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON, or raise if a key is there twice."""
    content = dict(pairs)
    if len(content) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _FileError(f'has the key "{next(key for key in keys if keys.count(key) > 1)}" twice')
    return content


def _parse(file: Path, content: dict[str, Any]) -> Handles:
    """Return the handles that a JSON object describes, or raise."""
    for key in content:
        if key not in KEYS:
            raise _FileError(f'unknown key "{key}"{_suggestion(key, KEYS)}')
    if "rest" not in content:
        raise _FileError('the key "rest" is missing: where the handles are at rest, [[x, y, z], ...]')
    if "now" in content and "frames" in content:
        raise _FileError('has both "now" and "frames": one pose or several, not both')
    if "now" not in content and "frames" not in content:
        raise _FileError('the key "now" is missing, where the handles go, or "frames" for several poses')
    names = _names(content.get("names"))
    rest = _rows("rest", content["rest"], None, 3, names)
    count = len(rest)
    if names is not None and len(names) != count:
        raise _FileError(f"names must be one for each of {count} handles, got {len(names)}")
    animated = "frames" in content
    frames = _poses("frames" if animated else "now", content, animated, None, count, 3, names)
    rotations = None
    if "rotations" in content:
        quaternions = _poses("rotations", content, animated, len(frames), count, 4, names)
        rotations = _matrices(quaternions, animated, names)
    return Handles(file, rest, frames, rotations, animated, names, _options(content, count, names))


def _options(content: dict[str, Any], count: int, names: tuple[str, ...] | None) -> dict[str, Any]:
    """Return the options of the deformer that the file sets, or raise."""
    options: dict[str, Any] = {key: _number(key, content[key]) for key in NUMBERS if key in content}
    for key in PER_HANDLE:
        if key not in content:
            continue
        value = content[key]
        if not isinstance(value, list):
            options[key] = _number(key, value)
            continue
        if len(value) != count:
            raise _FileError(
                f"{key} must be one number, or one for each of {count} handles, got {len(value)}"
            )
        options[key] = np.array([_number(_item(key, k, names), value[k]) for k in range(count)])
    if "distance" in content:
        value = content["distance"]
        if value not in DISTANCES:
            hint = _suggestion(value, DISTANCES) if isinstance(value, str) else ""
            raise _FileError(f'distance must be "inside" or "euclidean", got {_shown(value)}{hint}')
        options["distance"] = value
    return options


def _names(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise _FileError(f"names must be a list of strings, got {_shown(value)}")
    return tuple(value)


def _poses(
    key: str,
    content: dict[str, Any],
    animated: bool,
    count: int | None,
    handles: int,
    width: int,
    names: tuple[str, ...] | None,
) -> Array:
    """Return one pose (1, H, width), or a list of them (F, H, width), or raise."""
    value = content[key]
    if not animated:
        return _rows(key, value, handles, width, names)[None]
    if not isinstance(value, list) or not value:
        raise _FileError(f"{key} must be a list of poses, at least one, got {_shown(value)}")
    if count is not None and len(value) != count:
        raise _FileError(f"{key} must be one list for each of {count} frames, got {len(value)}")
    return np.array([_rows(f"{key}[{f}]", value[f], handles, width, names) for f in range(len(value))])


def _rows(key: str, value: Any, count: int | None, width: int, names: tuple[str, ...] | None) -> Array:
    """Return `value` as an array (count, width), or raise."""
    form = "[x, y, z]" if width == 3 else "[w, x, y, z]"
    if not isinstance(value, list) or not value:
        raise _FileError(f"{key} must be a list of rows {form}, at least one, got {_shown(value)}")
    if count is not None and len(value) != count:
        raise _FileError(
            f"{key} must have {count} rows {form}, one for each handle, got {len(value)}: {_shown(value)}"
        )
    for k, row in enumerate(value):
        if not isinstance(row, list) or len(row) != width or not all(_is_number(x) for x in row):
            raise _FileError(f"{_item(key, k, names)} must be {width} numbers {form}, got {_shown(row)}")
        if not all(math.isfinite(x) for x in row):
            raise _FileError(f"{_item(key, k, names)} must be finite, got {_shown(row)}")
    return np.array(value, dtype=np.float64)


def _matrices(quaternions: Array, animated: bool, names: tuple[str, ...] | None) -> Array:
    """Return the rotations (..., 3, 3) of quaternions (..., 4), wxyz, of any length but 0."""
    largest = np.abs(quaternions).max(-1, keepdims=True)
    if (largest == 0).any():
        f, k = (int(i) for i in np.argwhere(largest[..., 0] == 0)[0])
        key = f"rotations[{f}]" if animated else "rotations"
        raise _FileError(f"{_item(key, k, names)} is no rotation: all of it is 0")
    unit = quaternions / largest
    w, x, y, z = np.moveaxis(unit / np.linalg.norm(unit, axis=-1, keepdims=True), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def _is_number(value: Any) -> bool:
    """Return whether a value of JSON is a number that a float can hold."""
    return isinstance(value, float) or (is_integer(value) and abs(value) < 2**1000)


def _number(key: str, value: Any) -> float:
    if not _is_number(value):
        raise _FileError(f"{key} must be a number, got {_shown(value)}")
    if not math.isfinite(value):
        raise _FileError(f"{key} must be finite, got {value}")
    return float(value)


def _item(key: str, number: int, names: tuple[str, ...] | None) -> str:
    """Return ``rest[2]``, with the name of handle 2 if it has one."""
    return f"{key}[{number}]" + _name(number, names)


def _labelled(number: str, names: tuple[str, ...] | None) -> str:
    return number + _name(int(number), names)


def _name(number: int, names: tuple[str, ...] | None) -> str:
    return f' ("{names[number]}")' if names is not None and number < len(names) else ""


def _shown(value: Any) -> str:
    """Return a value as JSON, short enough for a line."""
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _suggestion(word: str, valid: Sequence[str]) -> str:
    """Return the end of a message that says what may have been meant."""
    close = difflib.get_close_matches(word.lower(), valid, n=1)
    return f': did you mean "{close[0]}"?' if close else f", not one of {', '.join(valid)}"
