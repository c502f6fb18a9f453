"""Dispatch of edits: which function carries out which command."""

from collections.abc import Callable, Mapping
from typing import Any

from ...errors import InputError
from ..document.document import BINDABLE, Document
from ..protocol import commands as messages
from . import bindings, bodies, objects
from . import poses as handle_edits

__all__ = ["edited"]


def edited(document: Document, command: messages.Edit, poses: handle_edits.Poses, frame: int) -> Document:
    """Return the document after an edit that is made while a frame is shown.

    Parameters
    ----------
    document : Document
        The document before the edit.
    command : Edit
        The edit.
    poses : Poses
        The poses of objects with handles.
    frame : int
        The number of the frame that is shown.

    Returns
    -------
    Document
        The document after the edit.

    Raises
    ------
    InputError
        If the edit is not possible.
    """
    match command:
        case messages.AddHandle():
            changed = handle_edits.add_handle(document, command, poses, frame)
        case messages.Key():
            changed = handle_edits.key(document, command, poses, frame)
        case messages.AttachKey():
            changed = bindings.key_binding(document, command, frame)
        case messages.Pin() if document.table(command.object)["kind"] in BINDABLE:
            changed = bindings.pin_points(document, command)
        case _:
            changed = _EDITS[type(command)](document, command)
    return changed.without_leftovers()


def _set(document: Document, command: messages.Set) -> Document:
    """Return the document with another value of a key, if objects and bindings stay tables.

    All else is checked by the rules of scene files.
    """
    path, value = command.path, command.value
    match path:
        case ["objects"]:
            if not isinstance(value, Mapping):
                raise InputError("objects must be tables by name")
            for name, table in value.items():
                _require_object(name, table)
        case ["objects", str(name)]:
            if value is None:
                return objects.remove(document, messages.Remove(object=name))
            _require_object(name, value)
        case ["objects", str(name), "handles"]:
            _require_object(name, {"handles": {} if value is None else value})
        case ["objects", str(name), "chains" | "together" as key, *_]:
            _require_object(name, {key: value})
        case ["attach"] if not _are_tables([] if value is None else value):
            raise InputError("attach must be a list of tables")
        case ["attach", number] if not isinstance(value, Mapping):
            raise InputError(f"attach.{number} must be a table")
    return document.set(path, value)


def _are_tables(value: Any) -> bool:
    """Return whether a value is a list of tables."""
    return isinstance(value, list) and all(isinstance(each, Mapping) for each in value)


def _require_object(name: str, table: Any) -> None:
    """Raise InputError unless a value can be the table of an object."""
    if not isinstance(table, Mapping):
        raise InputError(f"objects.{name} must be a table")
    if not isinstance(table.get("handles", {}), Mapping):
        raise InputError(f"objects.{name}.handles must be tables by name")
    for key in ("chains", "together"):
        if key in table:
            raise InputError(f"objects.{name}.{key} cannot be set: link handles instead")


_EDITS: dict[type[messages.Edit], Callable[[Document, Any], Document]] = {
    messages.Set: _set,
    messages.AddShape: objects.add_shape,
    messages.SetKind: objects.set_kind,
    messages.Rename: objects.rename,
    messages.Move: objects.move,
    messages.Remove: objects.remove,
    messages.Ground: objects.ground,
    messages.Select: objects.select,
    messages.Make: bodies.make,
    messages.Spray: bodies.spray,
    messages.Place: bodies.place,
    messages.Erase: bodies.erase,
    messages.Connect: bodies.connect,
    messages.ConnectPair: bodies.connect_pair,
    messages.Cut: bodies.cut,
    messages.Paint: bodies.paint,
    messages.Pin: bodies.pin,
    messages.Group: bodies.group,
    messages.Fit: bodies.fit,
    messages.Skin: bodies.skin,
    messages.RemoveHandle: handle_edits.remove_handle,
    messages.Link: handle_edits.link,
    messages.Attach: bindings.bind,
    messages.Detach: bindings.unbind,
}
