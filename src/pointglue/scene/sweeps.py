"""Parameter sweeps: from values of keys to wedges, one for each combination, and what they are called."""

import hashlib
import itertools
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..errors import SceneError
from .schema.loading import parse_setting

__all__ = ["Wedge", "parse_sweep", "plain_text", "planned_wedges", "short_key", "wedge_labels"]

MOST_WEDGES = 100_000  # more are probably a mistake
DIGITS = (6, 9, 12, 17)  # of numbers in names: the fewest that tell values apart are used

Status = Literal["done", "failed", "skipped"]


@dataclass(frozen=True)
class Wedge:
    """One combination of values, and the result of its run.

    Parameters
    ----------
    settings : dict
        The values, by key.
    folder : Path
        Where its frames are.
    status : {"done", "failed", "skipped"}, optional
        "skipped" if it had been done before.
    error : str, optional
        Why it failed.
    seconds : float, optional
        How long it took [s].
    metrics : dict of str to float, optional
        The metrics of its frames, by name.
    """

    settings: dict[str, Any]
    folder: Path
    status: Status = "done"
    error: str = ""
    seconds: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)


def parse_sweep(text: str) -> tuple[str, list[Any]]:
    """Return a key and its values from a text.

    Parameters
    ----------
    text : str
        ``key=a,b,c``, or ``key=0:1:5`` for five numbers from 0 to 1.

    Returns
    -------
    key : str
        The dotted key.
    values : list
        The values that it takes, in order.

    Raises
    ------
    SceneError
        If the text is neither.
    """
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not key or not value:
        raise SceneError(f"a setting must look like key=a,b,c or key=0:1:5, got {text!r}")
    if value.count(":") == 2 and not value.startswith(('"', "'", "[")):
        return key, _range(text, *value.split(":"))
    try:
        values = tomllib.loads(f"value = [{value}]")["value"]
    except (ValueError, RecursionError):
        values = [parse_setting(f"{key}={part}")[1] for part in value.split(",")]
    return key, list(values)


def _range(text: str, first: str, last: str, count: str) -> list[Any]:
    try:
        a, b, n = float(first), float(last), int(count)
    except ValueError:
        raise SceneError(f"a range must be first:last:count, three numbers, got {text!r}") from None
    if n > MOST_WEDGES:
        raise SceneError(f"a range must have at most {MOST_WEDGES:,} numbers, got {text!r}")
    if n < 2 or not np.isfinite([a, b]).all():
        raise SceneError(f"a range must have finite ends and at least 2 numbers, got {text!r}")
    values = np.linspace(a, b, n).tolist()
    whole = "." not in first + last and all(value == round(value) for value in values)
    return [round(value) for value in values] if whole else values


def planned_wedges(sweeps: Mapping[str, Sequence[Any]], folder: Path) -> list[Wedge]:
    """Return all combinations of values, the last key running fastest."""
    if not sweeps:
        raise SceneError("a wedge needs at least one key with values")
    count = int(np.prod([len(values) for values in sweeps.values()], dtype=object))
    if not 1 <= count <= MOST_WEDGES:
        raise SceneError(f"there must be 1 to {MOST_WEDGES:,} combinations of values, got {count:,}")
    planned = {}
    for values in itertools.product(*sweeps.values()):
        settings = dict(zip(sweeps, values, strict=True))
        planned[_name(settings)] = Wedge(settings, folder / _name(settings))
    return list(planned.values())


def _name(settings: Mapping[str, Any]) -> str:
    """Return the name of a folder: keys and values as far as they fit, and a digest of all of them."""
    words = [f"{short_key(key, settings)}={plain_text(value)}" for key, value in settings.items()]
    text = re.sub(r"[^\w=.+-]+", "_", ",".join(words)).strip("_.")[:60]
    code = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()
    return f"{text}-{code[:8]}"


def short_key(key: str, keys: Iterable[str]) -> str:
    """Return the end of a key, from its last word on, after a part of its own where others end alike."""
    parts = key.split(".")
    last_word = next((k for k in reversed(range(len(parts))) if not parts[k].isdecimal()), 0)
    end = ".".join(parts[last_word:])
    alike = [other.split(".") for other in keys if other != key and f".{other}".endswith(f".{end}")]
    if not alike:
        return end
    own = [part for part in parts[:last_word] if not any(part in other for other in alike)]
    return f"{own[-1]}.{end}" if own else key


def plain_text(value: Any, digits: int = DIGITS[0]) -> str:
    """Return a value as text, a number with the given significant `digits`."""
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def wedge_labels(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a text for each wedge that tells it from all others: its values of the keys that vary."""
    columns = {key: _distinct_texts([each[key] for each in settings]) for key in settings[0]}
    varying = {key: texts for key, texts in columns.items() if len(set(texts)) > 1} or columns
    names = [short_key(key, varying) for key in varying]
    if len(set(names)) < len(names):
        names = list(varying)
    rows = zip(*varying.values(), strict=True)
    return [", ".join(map("=".join, zip(names, row, strict=True))) for row in rows]


def _distinct_texts(values: Sequence[Any]) -> list[str]:
    """Return texts of values, with enough digits that different values have different texts."""
    count = len({repr(value) for value in values})
    for digits in DIGITS:
        texts = [plain_text(value, digits) for value in values]
        if len(set(texts)) == count:
            return texts
    return [repr(value) for value in values]
