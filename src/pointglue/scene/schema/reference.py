"""The reference of scene files, generated from their schema.

``python -m pointglue.scene.schema.reference`` prints it.
"""

from typing import Any, Literal, get_args, get_origin

from . import attach_tables as attaching
from . import fields as tables
from . import materials, shapes
from . import scene as schema
from .loading import bare_type
from .units import Plain, Quantity, Row, Whole

__all__ = ["reference"]

Tables = dict[str, type[tables.Table]]

HEAD = """\
# Reference of scene files

<!-- Made by python -m pointglue.scene.schema.reference: change the docstrings there, or those of models in
     pointglue/assets/registry.py, not this page. -->

This page lists every table and key of a [scene file](../how-to/write-scenes.md). Numbers are in SI units; a
text with a unit, such as `"2 mm"`, is accepted too. Keys marked *needed* have no default.
"""
WORLD: Tables = {
    "[frames]": schema.Frames,
    "[world]": schema.World,
    "[world.wind]": schema.Wind,
    "[world.water]": schema.Water,
}
OF_OBJECTS: Tables = {
    "material of particles": materials.ParticleMaterial,
    "material of flesh": materials.FleshMaterial,
    "material of cloth": materials.ClothMaterial,
    "material of jelly": materials.JellyMaterial,
    "material of rigid objects": materials.RigidMaterial,
    "transform": tables.Transform,
    "keys": tables.Key,
    "handles": schema.Handle,
    "grips": schema.KinematicPoints,
    "points, pin, among and groups": tables.Points,
    "ball": tables.BallOf,
}
OPTIONS: Tables = {
    "[solver.particles]": schema.ParticleOptions,
    "[solver.implicit]": schema.ImplicitOptions,
    "conflict_spring of [solver.implicit]": schema.ConflictSpring,
    "[contact]": schema.Contact,
    "[output]": schema.Output,
}


def reference() -> str:
    """Return the reference page, in Markdown."""
    top = _table("The top of the file", schema.SceneFile, 2)
    kinds = {f'kind = "{kind}"': model for kind, model in _members(schema.Object).items()}
    meshes = {f'shape = "{shape}"': model for shape, model in _members(shapes.Mesh).items()}
    meshes = {"a file": meshes.pop('shape = "file"'), **meshes}
    attachments = {f"[[attach]] of {kind}": model for kind, model in _members(attaching.Attach).items()}
    pushes = {f"[[force]]: {kind}": model for kind, model in _members(schema.Force).items()}
    return "\n".join(
        [
            HEAD,
            top,
            *_section(WORLD, 2),
            "## Objects\n\n`[objects.NAME]`, each with a `kind`.\n",
            *_section({**kinds, **OF_OBJECTS}, 3),
            "## Meshes\n\n`mesh` is a file or one of the shapes.\n",
            *_section(meshes, 3),
            "## Attachments\n\n`[[attach]]` with a `kind`, as many as you like.\n",
            *_section(attachments, 3),
            "## Forces\n\n`[[force]]` with a `kind`, as many as you like.\n",
            *_section(pushes, 3),
            *_section(OPTIONS, 2),
        ]
    )


def _members(union: Any) -> Tables:
    """Return the tables of a union that a key tells apart, by the value of that key."""
    return {get_args(part)[1].tag.split("=")[1]: get_args(part)[0] for part in get_args(get_args(union)[0])}


def _section(models: Tables, level: int) -> list[str]:
    return [_table(heading, model, level) for heading, model in models.items()]


def _table(heading: str, model: type[tables.Table], level: int) -> str:
    lines = [f"{'#' * level} {heading}", "", " ".join((model.__doc__ or "").split()), ""]
    own = [name for name in model.model_fields if name in model.__annotations__]
    inherited = [name for name in model.model_fields if name not in own]
    names = [name for name in own + inherited if name not in ("kind", "shape")]
    rows = [_row(model.model_fields[name].alias or name, model.model_fields[name]) for name in names]
    if rows:
        lines += ["| key | is | default | |", "| --- | --- | --- | --- |", *rows, ""]
    return "\n".join(lines)


def _row(name: str, info: Any) -> str:
    default = "*needed*" if info.is_required() else _value(info)
    words = " ".join((info.description or "").split()).replace("|", "\\|")
    return f"| `{name}` | {_type(info.annotation, info.metadata)} | {default} | {words} |"


def _value(info: Any) -> str:
    value = {} if info.default_factory else info.default
    if value is None or value in ((), {}, "") or isinstance(value, tables.Table):
        return "none" if value is None else ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'`"{value}"`'
    if isinstance(value, tuple):
        return f"`{[float(f'{each:.6g}') if isinstance(each, float) else each for each in value]}`"
    return f"`{value:.6g}`" if isinstance(value, float) else f"`{value}`"


def _type(annotation: Any, marks: Any = ()) -> str:
    """Return what a value is, in a few words."""
    for mark in (*marks, *getattr(annotation, "__metadata__", ())):
        if isinstance(mark, Quantity):
            return mark.unit or "number"
        if isinstance(mark, Row):
            counts = " or ".join(map(str, mark.lengths))
            return f"{counts} × {mark.each.unit}" if mark.each.unit else f"{counts} numbers"
        if isinstance(mark, Whole):
            return f"{mark.length} whole numbers"
        if isinstance(mark, Plain):
            return mark.words
    bare = bare_type(annotation)
    if bare is not annotation:
        options = [option for option in get_args(annotation) if option is not type(None)]
        inner = options[0] if len(options) == 1 and get_origin(annotation) is not None else annotation
        if inner is not annotation:
            return _type(inner)
    if get_origin(bare) is Literal:
        return ", ".join(f'`"{each}"`' for each in get_args(bare))
    if isinstance(bare, type) and issubclass(bare, tables.Table):
        return "table"
    if get_origin(bare) is dict:
        return "tables by name"
    if get_origin(bare) in (list, tuple):
        return f"list of {_type(get_args(bare)[0])}"
    words = {bool: "true or false", int: "whole number", str: "text", float: "number"}
    if bare in words:
        return words[bare]
    return "time" if set(get_args(bare)) == {float, str} else "table"


if __name__ == "__main__":
    print(reference(), end="")
