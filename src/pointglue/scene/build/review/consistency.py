"""Inconsistencies of a scene whose tables are right one by one."""

from collections.abc import Mapping
from typing import Any

from ...schema import scene as schema
from ...schema.loading import Problem
from ..built import Built, BuiltAnimated, BuiltCollider, BuiltFollower, BuiltParticles, BuiltRigid, BuiltSolid

__all__ = ["IMPLICIT", "meeting_problems", "moment_problems", "of_kind", "partner_problems"]

IMPLICIT = (BuiltSolid, BuiltRigid, BuiltAnimated)  # what the implicit solver moves


def of_kind(built: Mapping[str, Built], *kinds: type[Built]) -> dict[str, Any]:
    """Return the objects that were built into records of some kinds, by name."""
    return {name: item for name, item in built.items() if isinstance(item, kinds)}


def moment_problems(tables: schema.SceneFile) -> list[Problem]:
    """Return the problems of intervals of time that end before they begin, or before the first frame."""
    spans: list[tuple[tuple[str | int, ...], Any, Any, str]] = [
        (("force", k, "stop"), force.start, force.stop, "start") for k, force in enumerate(tables.force)
    ]
    if tables.world.wind is not None:
        wind = tables.world.wind
        spans.append((("world", "wind", "stop"), wind.start, wind.stop, "start"))
    for k, attach in enumerate(tables.attach):
        spans.append((("attach", k, "release"), attach.attach, attach.release, "attach"))
    frames = tables.frames
    problems: list[Problem] = []
    for where, start, stop, name in spans:
        if stop is None:
            continue
        if start is not None and not frames.seconds(start) < frames.seconds(stop):
            problems.append((where, f"must come after {name}, which is {start}, got {stop}"))
        elif not frames.seconds(stop) > 0:
            text = f"must come after the first frame, which is frame {frames.start}, got {stop}"
            problems.append((where, text))
    return problems


def meeting_problems(tables: schema.SceneFile, built: Mapping[str, Built]) -> list[Problem]:
    """Return the problems of what cannot be attached, touched or pushed."""
    problems: list[Problem] = []
    kinds = {name: table.kind for name, table in tables.objects.items()}
    implicit, particles = of_kind(built, *IMPLICIT), of_kind(built, BuiltParticles)
    for k, attach in enumerate(tables.attach):
        for key, name in (("from", attach.source), ("to", attach.to)):
            wrong = name not in implicit or (key == "from" and isinstance(built[name], BuiltAnimated))
            if name in built and wrong:
                text = f"must be flesh, cloth, jelly or rigid, got {name!r}, which is of kind {kinds[name]}"
                problems.append((("attach", k, key), text))
    for k, force in enumerate(tables.force):
        for j, name in enumerate(force.on):
            movable = name in particles or (name in implicit and kinds[name] != "animated")
            if name in built and not movable:
                text = f"cannot be pushed: {name!r} is of kind {kinds[name]}"
                problems.append((("force", k, "on", j), text))
    contact = tables.contact
    meeting = {*implicit, *of_kind(built, BuiltCollider)}
    for k, pair in enumerate(contact.ignore if contact is not None else ()):
        for j, name in enumerate(pair):
            if name not in meeting:
                text = f"must name what contact is of, {', '.join(sorted(meeting))}, got {name!r}"
                problems.append((("contact", "ignore", k, j), text))
    for name, follower in of_kind(built, BuiltFollower).items():
        if isinstance(built.get(follower.on), BuiltCollider | BuiltFollower):
            what = f"{follower.on!r}, which is of kind {kinds[follower.on]}"
            text = f"must be an object that a solver moves, got {what}"
            problems.append((("objects", name, "on"), text))
    return problems


def partner_problems(tables: schema.SceneFile, built: Mapping[str, Built]) -> list[Problem]:
    """Return the problems of contact and of colliders that no object of the scene can use."""
    problems: list[Problem] = []
    implicit, contact = of_kind(built, *IMPLICIT), tables.contact
    if contact is not None and not implicit:
        text = "is for flesh, cloth, jelly and rigid objects: there are none"
        problems.append((("contact",), text))
    if not of_kind(built, BuiltParticles) and (contact is None or not implicit):
        text = "is a collider that nothing can touch: particles can, and others where there is [contact]"
        problems += [(("objects", name), text) for name in of_kind(built, BuiltCollider)]
    return problems
