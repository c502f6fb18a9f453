"""The messages and constants in TypeScript; `python -m pointglue.studio.protocol.typescript` prints them."""

import json
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from .commands import COMMANDS, Message
from .constants import page_constants
from .replies import REPLIES

__all__ = ["typescript"]

_PLAIN = {str: "string", int: "number", float: "number", bool: "boolean", Any: "unknown", type(None): "null"}


def _bare(kind: Any) -> Any:
    """Return a type without its bounds, which TypeScript does not have."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _spelled(kind: Any) -> str:
    """Return a type in TypeScript."""
    kind = _bare(kind)
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " | ".join(f'"{value}"' for value in inner)
    if origin in (Union, types.UnionType):
        return " | ".join(map(_spelled, inner))
    if origin is list:
        each = _spelled(inner[0])
        return f"({each})[]" if len(get_args(_bare(inner[0]))) > 1 else f"{each}[]"
    if origin is tuple:
        return f"[{', '.join(map(_spelled, inner))}]"
    if origin is dict:
        return f"Record<string, {_spelled(inner[1])}>"
    return str(kind.__name__)


def _interface(model: type[Message], received: bool) -> str:
    """Return the interface of a message; those that the page receives have all their fields."""
    lines = [f"/** {(model.__doc__ or '').strip()} */", f"export interface {model.__name__} {{"]
    for name, field in model.model_fields.items():
        optional = "?" if not received and name != "type" and not field.is_required() else ""
        lines.append(f"  {name}{optional}: {_spelled(field.annotation)};")
    return "\n".join([*lines, "}"])


def _constant(name: str, value: Any) -> str:
    """Return a constant; tables have a line for each of their values."""
    return (
        f"export const {name} = {json.dumps(value, indent=2 if isinstance(value, dict) else None)} as const;"
    )


def typescript() -> str:
    """Return the source file of the page with all constants and the types of all messages."""
    parts = ["// Made by `python -m pointglue.studio.protocol.typescript`; do not edit."]
    parts.append("\n".join(_constant(name, value) for name, value in page_constants().items()))
    parts += [_interface(model, False) for model in COMMANDS]
    parts.append("export type Command =\n  | " + "\n  | ".join(model.__name__ for model in COMMANDS) + ";")
    parts += [_interface(model, True) for model in REPLIES]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    print(typescript(), end="")
