"""The identity of a scene: what tells its runs from those of other scenes, and how two of them differ."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import SceneError
from ..version import __version__
from .build.animated import sequence
from .schema.loading import LoadedScene, spelled
from .schema.scene import AnimatedObject

__all__ = ["SceneIdentity", "differences", "scene_hash"]

MOST_NAMED = 4  # differences that a message names
MOST_LETTERS = 40  # characters of a value in a message


@dataclass(frozen=True)
class SceneIdentity:
    """All inputs that determine the frames of a scene."""

    hash: str
    """A digest of all of them."""
    inputs: dict[str, Any]
    """The version of pointglue, the tables, and the digest of each file by its name, as JSON has them."""

    @classmethod
    def of(cls, scene: LoadedScene) -> "SceneIdentity":
        """Return the identity of a scene; SceneError if a file that it names cannot be read."""
        tables = scene.tables.model_dump(mode="json", by_alias=True, exclude={"title", "output"})
        del tables["frames"]["count"]  # a run may be made longer
        digest = hashlib.sha256(json.dumps([__version__, tables], sort_keys=True).encode())
        files = {}
        for path in _files(scene):
            try:
                content = path.read_bytes()
            except OSError as error:
                raise SceneError(f"{path}: cannot be read: {error.strerror}") from error
            digest.update(content)
            files[_relative(path, scene.source.folder)] = hashlib.sha256(content).hexdigest()
        return cls(digest.hexdigest(), {"pointglue": __version__, "tables": tables, "files": files})


def scene_hash(scene: LoadedScene) -> str:
    """Return a digest of all tables and files that determine the frames of a scene."""
    return SceneIdentity.of(scene).hash


def _files(scene: LoadedScene) -> Iterator[Path]:
    for item in scene.tables.objects.values():
        names = [getattr(getattr(item, "mesh", None), "file", None), getattr(item, "body", None)]
        paths = [scene.source.folder / name for name in filter(None, names)]
        if isinstance(item, AnimatedObject) and paths:
            paths = sequence(paths[0])
        yield from paths


def _relative(path: Path, folder: Path) -> str:
    """Return the name of a file relative to the scene, if it is below it."""
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return what differs between the inputs of two runs: the version, a few keys of the tables, files."""
    found: list[str] = []
    if before["pointglue"] != now["pointglue"]:
        found.append(f"it is by pointglue {before['pointglue']}, this is {now['pointglue']}")
    one, other = (dict(_leaves(inputs["tables"])) for inputs in (before, now))
    for where in dict.fromkeys([*one, *other]):
        key = spelled(where)
        if where not in other:
            found.append(f"{key} was {_shown(one[where])}, now it is not there")
        elif where not in one:
            found.append(f"{key} is {_shown(other[where])}, and was not there")
        elif one[where] != other[where]:
            found.append(f"{key} was {_shown(one[where])}, now it is {_shown(other[where])}")
    for name in dict.fromkeys([*before["files"], *now["files"]]):
        old, new = before["files"].get(name), now["files"].get(name)
        if old != new:
            change = "has changed" if old and new else "is read no more" if old else "was not read"
            found.append(f"the file {name} {change}")
    more = len(found) - MOST_NAMED
    return "; ".join(found[:MOST_NAMED] + ([f"and {more:,} more"] if more > 0 else []))


def _leaves(value: Any, where: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield the values of nested tables with their keys. Lists of numbers and texts are values."""
    if isinstance(value, Mapping) and value:
        for key, each in value.items():
            yield from _leaves(each, (*where, key))
    elif isinstance(value, list) and any(isinstance(each, Mapping | list) for each in value):
        for k, each in enumerate(value):
            yield from _leaves(each, (*where, k))
    else:
        yield where, value


def _shown(value: Any) -> str:
    """Return a value as text, shortened for a message."""
    text = json.dumps(value)
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"
