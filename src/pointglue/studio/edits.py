"""What edits make of the document."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..errors import InputError
from . import authoring, gluing, messages, objects, posing
from .document import TIED, Document

__all__ = ["edited"]


def edited(document: Document, command: messages.Edit, poses: posing.Poses, frame: int) -> Document:
    """The document after an edit, made while a frame is shown."""
    match command:
        case messages.AddHandle():
            return posing.add_handle(document, command, poses, frame)
        case messages.Key():
            return posing.key(document, command, poses, frame)
        case messages.AttachKey():
            return gluing.attach_key(document, command, frame)
        case messages.Pin() if document.table(command.object)["kind"] in TIED:
            return gluing.hold(document, command)
    return _EDITS[type(command)](document, command)


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
        case ["attach"] if not _are_tables([] if value is None else value):
            raise InputError("attach must be a list of tables")
        case ["attach", number] if not isinstance(value, Mapping):
            raise InputError(f"attach.{number} must be a table")
    return _without_leftovers(document.set(path, value))


def _without_leftovers(document: Document) -> Document:
    """Without bodies of objects and links of handles that are not there any more."""
    bodies = {name: body for name, body in document.bodies.items() if name in document.objects}
    rigs = {}
    for name, rig in document.rigs.items():
        there = document.objects.get(name, {}).get("handles", {})
        gone = [handle for link in (*rig.chains, *rig.groups) for handle in link if handle not in there]
        if name in document.objects:
            rigs[name] = rig.without(gone)
    same = len(bodies) == len(document.bodies) and rigs == document.rigs
    return document if same else replace(document, bodies=bodies, rigs=rigs)


def _are_tables(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, Mapping) for each in value)


def _require_object(name: str, table: Any) -> None:
    if not isinstance(table, Mapping):
        raise InputError(f"objects.{name} must be a table")
    if not isinstance(table.get("handles", {}), Mapping):
        raise InputError(f"objects.{name}.handles must be tables by name")


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
