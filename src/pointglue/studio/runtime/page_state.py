"""What pages know of the scene and its objects besides arrays."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from pydantic import BaseModel

from ...scene.tracks import rotation
from ..document.document import GROUND, Document, Rig
from ..edits import bindings, objects
from ..edits import poses as handle_edits
from ..protocol.replies import AttachState, HandleState, ObjectState, SelectionState, State
from .session_state import SessionState

__all__ = ["binding_state", "object_state", "page_state"]

# Keys whose values are times, which stay texts such as "frame 12".
_TIMES = ("attach", "release", "keys")


def page_state(
    session: SessionState,
    attach: list[AttachState],
    *,
    path: str,
    folder: str,
    saved: bool,
    found: str,
) -> State:
    """Return all that pages show besides arrays and the clock.

    Parameters
    ----------
    session : SessionState
        The document and its history, and the run that is played, if one is.
    attach : list of AttachState
        The bindings of the document, none while a run is played.
    path : str
        The scene file as people read it, "" for none.
    folder : str
        The working directory.
    saved : bool
        Whether the document is as in its file.
    found : str
        The scene that can be recovered as people read its path, "" for none.

    Returns
    -------
    State
        The message to pages.
    """
    document, run = session.document, session.run
    frames, selection = document.scene.frames, document.selection
    ground = document.objects.get(GROUND, {}).get("mesh", {}).get("point")
    selected = None
    if selection is not None:
        count = len(selection.of(selection.object, selection.what))
        selected = SelectionState(object=selection.object, what=selection.what, count=count)
    return State(
        title=document.scene.title,
        path=path,
        folder=folder,
        saved=saved,
        objects=[object_state(document, name) for name in document.objects] if run is None else run.objects(),
        attach=attach,
        frames={"start": frames.start, "end": frames.end, "rate": frames.rate},
        gravity=document.scene.world.gravity,
        ground=None if ground is None else float(ground[1]),
        selection=selected,
        undo=len(session.past),
        redo=len(session.future),
        run=None if run is None else run.state,
        found=found,
        tables={key: value for key, value in document.tables.items() if key not in ("objects", "attach")},
    )


def object_state(document: Document, name: str) -> ObjectState:
    """Return what pages know of an object besides its arrays."""
    table, body, surface = document.objects[name], document.particles(name), document.surface(name)
    shown = _in_si_units(
        {key: value for key, value in table.items() if key != "handles"}, document.item(name)
    )
    if len(shown.get("transform", {}).get("rotate", ())) == 4:
        shown["transform"]["rotate"] = handle_edits.euler_degrees(rotation(shown["transform"]["rotate"]))
    rig = document.rigs.get(name, Rig())
    links = {handle: f"chain {k + 1}" for k, chain in enumerate(rig.chains) for handle in chain}
    links |= {handle: f"group {k + 1}" for k, members in enumerate(rig.groups) for handle in members}
    return ObjectState(
        name=name,
        kind=table["kind"],
        table=shown,
        color=objects.color(document, name),
        visible=document.item(name).visible,
        vertices=0 if surface is None else len(surface.vertices),
        particles=0 if body is None else len(body),
        edges=0 if body is None else len(body.edges),
        groups=0 if body is None else len(body.groups),
        pinned=0 if body is None else int(body.pinned.sum()),
        handles=[
            HandleState(
                name=handle,
                keys=handle_edits.key_frames(document, name, handle),
                link=links.get(handle, ""),
            )
            for handle in table.get("handles", {})
        ],
        edited=name in document.bodies,
        links=[
            [list(table["handles"]).index(handle) for handle in link] for link in (*rig.chains, *rig.groups)
        ],
    )


def binding_state(document: Document, number: int, view: bindings.BindingView) -> AttachState:
    """Return what pages know of a binding at rest."""
    table = {key: value for key, value in document.attach[number].items() if key != "points"}
    gap = view.gap(partial(bindings.bindable_points, document))
    return AttachState(
        table=_in_si_units(table, document.scene.attach[number]),
        points=view.points,
        gap=gap,
        health=bindings.health(gap),
        problem=view.problem,
    )


def _in_si_units(table: Mapping[str, Any], parsed: Any) -> dict[str, Any]:
    """Return a table with numbers in SI units where the file has texts like "40 kPa"; times stay texts."""
    plain: dict[str, Any] = {}
    for key, value in table.items():
        known = getattr(parsed, key, None)
        if isinstance(value, Mapping) and isinstance(known, BaseModel):
            plain[key] = _in_si_units(value, known)
        elif (
            isinstance(value, str | list | tuple)
            and isinstance(known, int | float | tuple)
            and key not in _TIMES
        ):
            plain[key] = list(known) if isinstance(known, tuple) else known
        else:
            plain[key] = value
    return plain
