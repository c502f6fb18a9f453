"""Random commands, drawn from the schema of messages: commands that are added to it are drawn as well."""

import json
import types
from collections.abc import Mapping
from typing import Literal, Union, get_args, get_origin

from pointglue.scene.schema.loading import bare_type
from pointglue.scene.schema.scene import SceneFile
from pointglue.studio.protocol import commands as messages
from pointglue.studio.protocol.commands import COMMANDS

__all__ = ["drawn_text"]

ODD_TEXTS = ("", " ", "run: cloth", "nobody", "ground", "../x", "a\0b", "\ud800", "é🐙", 5000 * "x", "a.b")
ODD_WHOLE = (-1, 10, 2**31, 2**63, -(2**63), 10**30, -(10**30))
ODD_REAL = (0.0, -1.0, 1e-9, 1e-300, 1e9, 1e12, 1e308, -1e308, 10**400, float("nan"), float("inf"))
REAL = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0)
WIDE = (0.4, 0.5, 0.9)  # from particle to particle: few are made quickly
OFTEN = 0.1  # the share of commands that set a value, which are the most manifold, besides those by chance
# What takes long, or leaves the scene, is drawn less often than the rest.
SELDOM = ("new", "make", "fit", "step", "play", "grab", "export", "restore", "close_run", "hello", "ack")
# Names of fields that are names of something; a text of any other field is drawn from all names.
NAMED = {"object": "objects", "to": "objects", "handle": "handles", "handles": "handles", "path": "files"}


def drawn_text(rng, session):
    """A command as JSON; most are well formed, and most name what is there."""
    kind = messages.Set if rng.random() < OFTEN else rng.choice(COMMANDS)
    if kind.model_fields["type"].default in SELDOM and rng.random() < 0.8:
        kind = rng.choice(COMMANDS)
    values = {"type": kind.model_fields["type"].default}
    drawn = _Drawing(rng, session)
    if {"handle", "handles"} & kind.model_fields.keys():
        drawn.objects = drawn.posed or drawn.objects
    for name, field in kind.model_fields.items():
        if name == "spacing" and rng.random() < 0.95:
            values[name] = rng.choice(WIDE)
        elif name != "type" and (field.is_required() or rng.random() < 0.8):
            values[name] = drawn.value(name, field.annotation)
    if kind is messages.Set:
        values["path"], values["value"] = drawn.setting()
    return json.dumps(values)


class _Drawing:
    """Values of fields by their types, and names of what a session has."""

    def __init__(self, rng, session):
        self.rng, self.tables = rng, session.document.tables
        objects, chosen = session.document.objects, session.document.selection
        self.objects = list(objects) + ([chosen.object] if chosen is not None else [])
        self.posed = [name for name, table in objects.items() if table.get("handles")]
        self.handles = [handle for table in objects.values() for handle in table.get("handles", {})]
        self.files = sorted(path.name for path in session.files.root.iterdir())

    def value(self, name, kind):
        kind, rng = bare_type(kind), self.rng
        origin, inner = get_origin(kind), get_args(kind)
        if origin is Literal:
            return rng.choice(inner)
        if origin in (Union, types.UnionType):
            return self.value(name, inner[0] if rng.random() < 0.7 else rng.choice(inner))
        if origin is list:
            return [self.value(name, inner[0]) for _ in range(rng.choice((0, 1, 2, 3, 4, 8)))]
        if origin is tuple:
            return [self.value(name, each) for each in inner]
        if kind is bool:
            return rng.random() < 0.5
        if kind is int:
            return rng.choice(ODD_WHOLE) if rng.random() < 0.1 else int(9 * rng.random() ** 2)
        if kind is float:
            return self.real()
        if kind is str:
            return self.text(name)
        if kind is type(None):
            return None
        return self.anything()

    def real(self):
        draw = self.rng.random()
        if draw < 0.05:
            return self.rng.choice(ODD_REAL)
        return self.rng.choice(REAL) if draw < 0.6 else round(self.rng.uniform(-1, 1), 3)

    def text(self, name):
        names = getattr(self, NAMED.get(name, ""), None) or [*self.objects, *self.handles, *self.files]
        if not names or self.rng.random() < 0.12:
            return self.rng.choice(ODD_TEXTS)
        return f"{self.rng.choice(names)} 2" if name == "name" else self.rng.choice(names)

    def anything(self, depth=0):
        """A plain value, a value of the scene, or several of them."""
        draw = self.rng.random()
        if draw < 0.3:
            return self.rng.choice((None, True, False, {}, [], 3, 0, "frame 2", "0.5 m", "wood", *ODD_REAL))
        if draw < 0.4:
            return self.value("", int)
        if draw < 0.5:
            return self.real()
        if draw < 0.6:
            return [self.real() for _ in range(3)]
        if draw < 0.7 and depth < 2:
            return {self.text("key"): self.anything(depth + 1) for _ in range(2)}
        if draw < 0.75 and depth < 2:
            return [self.anything(depth + 1) for _ in range(2)]
        return self.rng.choice(_values(self.tables))

    def setting(self):
        """A key of the scene that is there or that its schema has, and a value for it."""
        path, here, kind = [], self.tables, SceneFile
        while not path or self.rng.random() < 0.75:
            fields = [info.alias or name for name, info in getattr(kind, "model_fields", {}).items()]
            if isinstance(here, Mapping):
                path.append(self.rng.choice([*here, *here, *fields, self.text("key")]))
                here, kind = here.get(path[-1]), _within(kind, path[-1], here)
            elif isinstance(here, list | tuple) and len(here):
                path.append(self.rng.choice([*range(len(here)), len(here), -1]))
                here, kind = dict(enumerate(here)).get(path[-1]), _within(kind, path[-1], here)
            elif fields:
                path.append(self.rng.choice(fields))
                here, kind = None, _within(kind, path[-1], {})
            else:
                break
        if kind is None or self.rng.random() < 0.3:
            return path, self.anything()
        return path, self.of_table(kind)

    def of_table(self, kind, depth=0):
        """A value of a type of the schema of scenes; what its own parsers read is drawn by a guess."""
        kind = bare_type(kind)
        if hasattr(kind, "model_fields"):
            return {
                info.alias or name: self.of_table(info.annotation, depth + 1)
                for name, info in kind.model_fields.items()
                if info.is_required() or self.rng.random() < 0.2
            }
        origin, inner = get_origin(kind), get_args(kind)
        if depth < 4 and origin is dict:
            count = self.rng.randrange(3)
            return {self.text("key"): self.of_table(inner[1], depth + 1) for _ in range(count)}
        if depth < 4 and origin in (Union, types.UnionType):
            return self.of_table(self.rng.choice(inner), depth + 1)
        if depth < 4 and origin in (list, tuple) and inner:
            count = self.rng.randrange(3) if Ellipsis in inner or origin is list else len(inner)
            return [self.of_table(inner[0], depth + 1) for _ in range(count)]
        return self.value("", kind)


def _values(tables):
    """All that is within tables, at any depth, and they themselves."""
    found = [tables]
    items = tables.values() if isinstance(tables, Mapping) else tables if isinstance(tables, list) else ()
    for item in items:
        found += _values(item)
    return found


def _within(kind, key, here):
    """The type of the schema of what is at a key of a table, as far as it can be told."""
    kind = bare_type(kind)
    for name, info in getattr(kind, "model_fields", {}).items():
        if key == (info.alias or name):
            return _told_apart(info.annotation, here.get(key) if isinstance(here, Mapping) else None)
    inner = get_args(kind)
    if get_origin(kind) in (dict, list, tuple) and inner:
        value = here.get(key) if isinstance(here, Mapping) else None
        if isinstance(here, list | tuple) and isinstance(key, int) and 0 <= key < len(here):
            value = here[key]
        return _told_apart(inner[-1] if get_origin(kind) is dict else inner[0], value)
    return None


def _told_apart(kind, value):
    """The table of a union that a value is of."""
    kind = bare_type(kind)
    if get_origin(kind) in (Union, types.UnionType) and isinstance(value, Mapping):
        tags = {f"{key}={value[key]}" for key in ("kind", "shape") if key in value} | {"shape=file"}
        for option in get_args(kind):
            if any(getattr(mark, "tag", None) in tags for mark in getattr(option, "__metadata__", ())):
                return bare_type(option)
    return kind
