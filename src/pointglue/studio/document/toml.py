"""A TOML writer for people to read: vectors and small tables have one line."""

import json
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["toml_text"]

WIDTH = 100  # characters: larger tables are sections


def toml_text(tables: Mapping[str, Any]) -> str:
    """Return a TOML document that reads back as `tables`.

    Parameters
    ----------
    tables : mapping
        Texts, numbers, booleans, lists and tables; no None. Tables keep their order within a table.

    Returns
    -------
    str
        The document.
    """
    return "\n".join(_lines(tables, ())).lstrip("\n") + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    """Return the lines of a table at a path of the document."""
    plain, sections = {}, False
    for key, value in table.items():
        # A table in a line comes before all sections, so that what follows one has to be one itself.
        if _section(value) or (sections and isinstance(value, Mapping)):
            sections = True
        else:
            plain[key] = value
    lines = [f"{_key(key)} = {_value(value)}" for key, value in plain.items()]
    for key, value in table.items():
        if key in plain:
            continue
        here = (*path, key)
        name = ".".join(map(_key, here))
        if isinstance(value, Mapping):
            inner = _lines(value, here)
            lines += ["", f"[{name}]", *inner] if not inner or inner[0] != "" else inner
        else:
            for item in value:
                lines += ["", f"[[{name}]]", *_lines(item, here)]
    return lines


def _section(value: Any) -> bool:
    """Return whether a value is too large, or too deep, for a line."""
    if isinstance(value, Mapping):
        return len(_value(value)) > WIDTH or any(isinstance(item, Mapping) for item in value.values())
    tables = (
        isinstance(value, list | tuple)
        and len(value) > 0
        and all(isinstance(item, Mapping) for item in value)
    )
    return tables and len(_value(value)) > WIDTH


def _key(key: str) -> str:
    """Return a key, quoted if it has to be."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _text(key)


def _text(text: str) -> str:
    """Return a text in quotes."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    """Return a value in one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    return f"[{', '.join(map(_value, value))}]"
