"""What edits make of the document."""

from collections.abc import Callable, Mapping
from typing import Any

from ...errors import InputError
from ..document.document import TIED, Document
from ..protocol import commands as messages
from . import bindings as gluing
from . import bodies as authoring
from . import objects
from . import poses as posing

__all__ = ["edited"]


def edited(document: Document, command: messages.Edit, poses: posing.Poses, frame: int) -> Document:
    """The document after an edit, made while a frame is shown."""
    match command:
        case messages.AddHandle():
            changed = posing.add_handle(document, command, poses, frame)
        case messages.Key():
            changed = posing.key(document, command, poses, frame)
        case messages.AttachKey():
            changed = gluing.attach_key(document, command, frame)
        case messages.Pin() if document.table(command.object)["kind"] in TIED:
            changed = gluing.hold(document, command)
        case _:
            changed = _EDITS[type(command)](document, command)
    return changed.without_leftovers()


def _set(document: Document, command: messages.Set) -> Document:
    """Another value, if objects and attachments stay tables; the rest is checked by the rules of scenes."""
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
    return isinstance(value, list) and all(isinstance(each, Mapping) for each in value)


def _require_object(name: str, table: Any) -> None:
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
    messages.Make: authoring.make,
    messages.Spray: authoring.spray,
    messages.Place: authoring.place,
    messages.Erase: authoring.erase,
    messages.Connect: authoring.connect,
    messages.ConnectPair: authoring.connect_pair,
    messages.Cut: authoring.cut,
    messages.Paint: authoring.paint,
    messages.Pin: authoring.pin,
    messages.Group: authoring.group,
    messages.Fit: authoring.fit,
    messages.Skin: authoring.skin,
    messages.RemoveHandle: posing.remove_handle,
    messages.Link: posing.link,
    messages.Attach: gluing.attach,
    messages.Detach: gluing.detach,
}
