"""Read scene files, and find all that is wrong with them at once: file, line, key, and what was meant."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from ...assets.registry import ASSETS
from ...errors import SceneError
from .fields import Table, nearest
from .scene import SceneFile
from .units import Quantity, Row, shown

__all__ = ["LoadedScene", "load_scene", "parse_setting"]

Where = tuple[str | int, ...]
Problem = tuple[Where, str]
"""A key, and what is wrong with it."""

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*=""")
# How a message begins that goes on where the key, its subject, ends; any other is a sentence of its own.
_PREDICATE = re.compile(
    r"(must|should|would|will|is|are|has|have|had|cannot|does|do|names|attaches|glues|pins|selects|needs|makes?|moves?|crosses|"
    r"reaches|goes|was|starts|acts)\b"
)
_PART = re.compile(r""""([^"]*)"|'([^']*)'|([\w-]+)""")


@dataclass(frozen=True, eq=False)
class Source:
    """Where a scene comes from: a file and its text, or nothing but tables."""

    path: Path | None
    """The file, if there is one."""
    text: str = ""
    """What it says."""
    overridden: dict[Where, Any] = field(default_factory=dict)
    """Values that were set by overrides, by key."""

    @property
    def folder(self) -> Path:
        """What file names are relative to."""
        return Path() if self.path is None else self.path.parent

    @cached_property
    def _lines(self) -> dict[Where, int]:
        """The line of every key, and of every table by the first key in it."""
        lines: dict[Where, int] = {}
        for key, line in lines_of(self.text).items():  # from the first line to the last
            for table in filter(None, _outwards(key)):
                lines.setdefault(table, line)
        return lines

    def line(self, where: Where) -> int:
        """Return the line of a key, of the first key in it, or of the nearest table around it; 0 for none."""
        return next((self._lines[key] for key in _outwards(where) if key in self._lines), 0)

    def message(self, where: Where, text: str) -> str:
        """Return the text as a sentence about a key, after the file and the line."""
        return self._message(where, text)[1]

    def error(self, problems: "list[Problem]") -> SceneError:
        """Return the error with all problems, in the order of the file."""
        messages = dict.fromkeys(self._message(*problem) for problem in problems)
        return SceneError(*(text for _, text in sorted(messages, key=lambda pair: pair[0])))

    def _message(self, where: Where, text: str) -> tuple[int, str]:
        """Return the line (0 if it is not known) and the message."""
        place = "" if self.path is None else f"{self.path}: "
        line = self.line(where)
        if any(key in self.overridden for key in _outwards(where)):
            place, line = f"{place}as set, ", 0
        elif line:
            place = f"{self.path}:{line}: "
        key = spelled(where)
        between = "" if not key else " " if _PREDICATE.match(text) else ": "
        return line, f"{place}{key}{between}{text}"


@dataclass(frozen=True, eq=False)
class LoadedScene:
    """A scene whose tables are right; `build_scene` finds out whether it can be built.

    Parameters
    ----------
    tables : SceneFile
        The tables, with defaults for what is left out, in SI units.
    source : Source
        The file that they come from.
    raw : dict
        The tables as they were given.
    """

    tables: SceneFile
    source: Source
    raw: dict[str, Any]


def load_scene(
    scene: str | Path | Mapping[str, Any], overrides: Mapping[str, Any] | None = None
) -> LoadedScene:
    """Read a TOML file, or take tables as they are, and check them.

    Parameters
    ----------
    scene : str, Path or mapping
        The file, or the tables.
    overrides : mapping, optional
        Values by dotted keys, ``{"frames.count": 10, "attach.0.release": "1 s"}``, that go before what the
        file says.

    Returns
    -------
    LoadedScene
        The checked tables, with defaults filled in.

    Raises
    ------
    SceneError
        If anything is wrong with the tables; the error lists all problems.
    """
    source, raw = read_tables(scene, overrides)
    tables, problems = validated(raw, source)
    if problems or tables is None:
        raise source.error(problems)
    return LoadedScene(tables, source, raw)


def read_tables(
    scene: str | Path | Mapping[str, Any], overrides: Mapping[str, Any] | None
) -> tuple[Source, dict[str, Any]]:
    """Return the source and the tables of a scene, not checked, with `overrides`."""
    source, raw = _read(scene)
    for key, value in (overrides or {}).items():
        where = _override(raw, key, value)
        source.overridden[where] = value
    return source, raw


def validated(raw: dict[str, Any], source: Source) -> tuple[SceneFile | None, list[Problem]]:
    """Return the tables as a scene, or None if they are wrong, and all that is wrong with them."""
    problems = _wrong_names(raw, source)
    try:
        return SceneFile.model_validate(raw), problems
    except ValidationError as error:
        problems += _found(error)
    except RecursionError:
        problems.append(((), "the scene is nested too deeply"))
    return None, problems


def parse_setting(text: str) -> tuple[str, Any]:
    """Return a key and its value from a text such as ``frames.count=10``.

    Parameters
    ----------
    text : str
        The key, "=", and a value of TOML, a number, true or a list say. Any other value is a text.

    Returns
    -------
    key : str
        The dotted key.
    value : any
        The value, of the type that TOML gives it.

    Raises
    ------
    SceneError
        If there is no key or no "=".
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise SceneError(f"a setting must look like key=value, got {text!r}")
    try:
        return key.strip(), tomllib.loads(f"value = {value.strip()}")["value"]
    except (ValueError, RecursionError):
        return key.strip(), value.strip()


def _outwards(where: Where) -> list[Where]:
    """Return a key and the keys of all tables around it, the innermost first."""
    return [where[:depth] for depth in range(len(where), -1, -1)]


def spelled(where: Where) -> str:
    """Return a key as one would write it: attach[0].points.box."""
    text = ""
    for part in where:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (part if re.fullmatch(r"[\w-]+", part) else repr(part))
    return text


def _read(scene: Any) -> tuple[Source, dict[str, Any]]:
    if isinstance(scene, Mapping):
        return Source(None), _copied(scene)
    if not isinstance(scene, (str, Path)):
        raise SceneError(f"scene must be the path of a file, or tables, got {type(scene).__name__}")
    path = Path(scene)
    try:
        text = path.read_bytes().decode("utf-8-sig")  # with the mark that some editors put before it, or not
    except UnicodeDecodeError as error:
        number = 1 + error.object.count(b"\n", 0, error.start)
        raise SceneError(f"{path}:{number}: is not a text file in UTF-8") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SceneError(f"{path}: cannot be read: {reason}") from None
    try:
        return Source(path, text), tomllib.loads(text)
    except RecursionError:
        raise SceneError(f"{path}: is nested too deeply") from None
    except ValueError as error:  # TOMLDecodeError, and numbers of thousands of digits
        found = re.search(r"\(at line (\d+), column \d+\)", str(error))
        ends = "at end of document" in str(error)
        line = f":{found[1]}" if found else f":{len(text.splitlines())}" if ends else ""
        reason = re.sub(r" \(at .*", "", str(error))
        raise SceneError(f"{path}{line}: is not TOML: {reason}") from None


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, (list, tuple)) else value


def _override(raw: dict[str, Any], key: str, value: Any) -> Where:
    """Set a value in the tables, and return the key as a tuple."""
    parts = key.split(".")
    here: Any = raw
    where: list[str | int] = []
    for k, part in enumerate(parts):
        last = k == len(parts) - 1
        if isinstance(here, list):
            if not part.isdecimal() or int(part) >= len(here):
                there = f"{spelled(tuple(where))} has {len(here)} entries, from 0"
                raise SceneError(f"cannot set {key}: {there}, got {part!r}")
            where.append(int(part))
        elif isinstance(here, dict):
            where.append(part)
            if not last:
                here.setdefault(part, {})
        else:
            raise SceneError(f"cannot set {key}: {spelled(tuple(where))} is {shown(here)}, not a table")
        if last:
            here[where[-1]] = value
        else:
            here = here[where[-1]]
    return tuple(where)


def _wrong_names(raw: dict[str, Any], source: Source) -> list[Problem]:
    """Return the problems of names of objects, groups and files that are not there.

    The tables may be wrong otherwise.
    """
    objects = raw.get("objects")
    objects = objects if isinstance(objects, dict) else {}
    problems: list[Problem] = []

    def check(where: Where, name: Any) -> None:
        if isinstance(name, str) and name not in objects:
            known = ", ".join(map(repr, objects)) or "none"
            near = nearest(name, objects) or f"; there are {known}"
            problems.append((where, f"names no object: {name!r}{near}"))

    def check_group(where: Where, points: Any, name: Any) -> None:
        group = points.get("name") if isinstance(points, dict) else None
        body = objects.get(name) if isinstance(name, str) else None
        if not isinstance(group, str) or not isinstance(body, dict):
            return
        own, mesh = body.get("groups"), body.get("mesh")
        shape = mesh.get("shape") if isinstance(mesh, dict) else None
        model = ASSETS.get(shape) if isinstance(shape, str) else None
        groups = [*(own if isinstance(own, dict) else {}), *(model.group_names if model else ())]
        if group not in groups:
            near = nearest(group, groups) or f"; it has {', '.join(map(repr, groups)) or 'none'}"
            problems.append(((*where, "name"), f"names no group of {name!r}: {group!r}{near}"))

    def check_handles(name: str, item: dict[str, Any]) -> None:
        known = item.get("handles")
        if not isinstance(known, dict):
            return
        for key in ("chains", "together"):
            rows = item.get(key)
            for k, row in enumerate(rows if isinstance(rows, list) else []):
                for j, handle in enumerate(row if isinstance(row, list) else []):
                    if isinstance(handle, str) and handle not in known:
                        near = nearest(handle, known) or f"; there are {', '.join(map(repr, known))}"
                        where = ("objects", name, key, k, j)
                        problems.append((where, f"names no handle of {name!r}: {handle!r}{near}"))

    for k, attach in enumerate(_tables(raw.get("attach"))):
        for side in ("from", "to"):
            check(("attach", k, side), attach.get(side))
        itself = isinstance(attach.get("from"), str) and attach.get("from") == attach.get("to")
        if itself and (attach.get("kind") == "joint" or "among" not in attach):
            text = f"attaches {attach['from']!r} to itself"
            hint = "" if attach.get("kind") == "joint" else ": say among which of its points"
            problems.append((("attach", k), text + hint))
        check_group(("attach", k, "points"), attach.get("points"), attach.get("from"))
        check_group(("attach", k, "among"), attach.get("among"), attach.get("to"))
    for k, force in enumerate(_tables(raw.get("force"))):
        names = force.get("on")
        for j, name in enumerate(names if isinstance(names, list) else []):
            check(("force", k, "on", j), name)
            check_group(("force", k, "points"), force.get("points"), name)
    for name, item in objects.items():
        if isinstance(item, dict):
            check_group(("objects", name, "pin"), item.get("pin"), name)
            check_handles(name, item)
            if item.get("kind") == "follower":
                check(("objects", name, "on"), item.get("on"))
            mesh = item.get("mesh")
            if isinstance(mesh, dict):
                problems += _missing_file(("objects", name, "mesh", "file"), mesh.get("file"), source)
            problems += _missing_file(("objects", name, "body"), item.get("body"), source)
    return problems


def _tables(value: Any) -> list[dict[str, Any]]:
    return [item if isinstance(item, dict) else {} for item in value] if isinstance(value, list) else []


def _missing_file(where: Where, name: Any, source: Source) -> list[Problem]:
    if not isinstance(name, str):
        return []
    try:
        path = source.folder / name
        if path.is_file():
            return []
        if path.is_dir():
            return [(where, f"is a folder, not a file: {shown(name)}")]
        beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    except (OSError, ValueError):
        beside = []
    return [(where, f"is not a file: {shown(name)}{nearest(Path(name).name, beside)}")]


def _found(error: ValidationError) -> list[Problem]:
    """Return what pydantic found, in our words."""
    return [_message(item, *_place(item["loc"])) for item in error.errors(include_url=False)]


def _place(loc: tuple[str | int, ...]) -> tuple[Where, type[Table] | None]:
    """Return the key, without the tags of unions that pydantic puts between, and the table that holds it."""
    where = tuple(
        part for part in loc if isinstance(part, int) or not re.match(r"(kind|shape)=|\[key\]$", part)
    )
    kind = _kind_at(loc[:-1])
    return where, kind if isinstance(kind, type) and issubclass(kind, Table) else None


def _kind_at(loc: tuple[str | int, ...]) -> Any:
    """Return the type of what is at a place in a scene."""
    kind: Any = SceneFile
    for part in loc:
        kind = _inner(kind, part)
    return kind


def _choices(loc: tuple[str | int, ...]) -> tuple[str, list[str]]:
    """Return the key that tells the tables of a union apart, kind or shape, and the values it may have."""
    marks = [mark for option in get_args(_kind_at(loc)) for mark in option.__metadata__]
    keys, names = zip(*(mark.tag.split("=") for mark in marks), strict=True)
    return keys[0], [name for name in names if name != "file"]


def _inner(kind: Any, part: str | int) -> Any:
    """Return the type of what is at `part` of a value of a type."""
    kind = bare_type(kind)
    if isinstance(kind, type) and issubclass(kind, Table):
        for name, info in kind.model_fields.items():
            if part == (info.alias or name):
                return bare_type(info.annotation)
        return None
    if isinstance(part, str) and "=" in part:  # the tag of a union
        for option in get_args(kind):
            if any(getattr(mark, "tag", None) == part for mark in getattr(option, "__metadata__", ())):
                return bare_type(option)
    arguments = get_args(kind)
    if get_origin(kind) is dict:
        return bare_type(arguments[1])
    if get_origin(kind) in (list, tuple):
        return bare_type(arguments[0])
    return None


def bare_type(kind: Any) -> Any:
    """Return a type without its annotations, and without None."""
    while hasattr(kind, "__metadata__"):
        kind = kind.__origin__
    if get_origin(kind) in (Union, UnionType):
        options = [option for option in get_args(kind) if option is not type(None)]
        if len(options) == 1:
            return bare_type(options[0])
    return kind


def _message(item: Any, where: Where, table: type[Table] | None) -> Problem:
    kind, value, context = item["type"], item["input"], item.get("ctx", {})
    if kind == "extra_forbidden":
        keys = [info.alias or name for name, info in table.model_fields.items()] if table else []
        near = nearest(where[-1], keys) or (f"; the keys here are {', '.join(keys)}" if keys else "")
        return where, f"is not known here{near}"
    if kind == "missing":
        return where, f"is missing{_described(table, where[-1])}"
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        if not isinstance(value, dict):
            return where, f"must be a table, got {shown(value)}"
        key, choices = _choices(item["loc"])
        if key in value:
            return (*where, key), _one_of(value[key], choices)
        lacks = "shape, and no file" if key == "shape" else key
        return where, f"has no {lacks}: the {key} must be one of {', '.join(choices)}"
    if kind == "literal_error":
        return where, _one_of(value, re.findall(r"'([^']*)'", context["expected"]))
    if kind == "value_error":
        return where, str(context["error"])
    if kind == "string_pattern_mismatch":
        return where, f"must be a name of letters a to z, digits, _, - and spaces, got {shown(value)}"
    if kind == "string_too_long":
        return where, f"must have at most {context['max_length']} letters"
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return where, f"must be a table, got {shown(value)}"
    if kind in ("list_type", "tuple_type"):
        return where, f"must be a list, got {shown(value)}"
    if kind in ("too_short", "too_long"):
        count = context.get("min_length", context.get("max_length"))
        few = "at least" if kind == "too_short" else "at most"
        entries = "entry" if count == 1 else "entries"
        return where, f"must have {few} {count} {entries}, got {context['actual_length']}"
    words = {
        "bool_type": "must be true or false",
        "int_type": "must be a whole number",
        "string_type": "must be a text",
    }
    if kind in words:
        return where, f"{words[kind]}, got {shown(value)}"
    if kind == "greater_than_equal":
        return where, f"must be at least {context['ge']}, got {shown(value)}"
    if kind == "less_than_equal":
        return where, f"must be at most {context['le']}, got {shown(value)}"
    return where, f"{item['msg'].removeprefix('Input ')}, got {shown(value)}"


def _one_of(value: Any, names: list[str]) -> str:
    return f"must be one of {', '.join(names)}, got {shown(value)}{nearest(value, names)}"


def _described(table: type[Table] | None, name: str | int) -> str:
    """Return what to give for a key that is missing; descriptions of such keys begin with an article."""
    fields: dict[str, FieldInfo] = table.model_fields if table else {}
    for key, info in fields.items():
        if name == (info.alias or key) and info.description:
            words = " ".join(info.description.split()).rstrip(".")
            units = [mark for mark in info.metadata if isinstance(mark, Quantity | Row)]
            unit = "".join((mark.each if isinstance(mark, Row) else mark).unit for mark in units)
            return f": give {words[0].lower()}{words[1:]}{f' (in {unit})' if unit else ''}"
    return ""


def lines_of(text: str) -> dict[Where, int]:
    """Return the lines of tables and keys of a TOML text, as far as single lines show them."""
    found: dict[Where, int] = {}
    counts: dict[Where, int] = {}
    table: Where = ()
    for number, line in enumerate(text.splitlines(), 1):
        if (header := _HEADER.fullmatch(line)) and (parts := _parts(header[2])):
            table = ()
            for k, part in enumerate(parts):
                table = (*table, part)
                if header[1] == "[[" and k == len(parts) - 1:
                    counts[table] = counts.get(table, -1) + 1
                if table in counts:
                    table = (*table, counts[table])
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            found.setdefault((*table, *_parts(key[1])), number)
    return found


def _parts(text: str) -> Where:
    return tuple(a or b or c for a, b, c in _PART.findall(text))
