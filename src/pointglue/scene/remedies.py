"""What to try where the implicit solver cannot complete a step, in the words of scene files."""

from ..elastic import StepError
from .build.built import SKIN_SUFFIX
from .schema.attach_tables import JointAttach
from .schema.scene import SceneFile

__all__ = ["explained"]


def explained(error: StepError, tables: SceneFile) -> str:
    """Return what went wrong in a step, with which objects and where, and which keys may help."""
    # What others touch is a part of its object, and has no name of its own in the scene.
    text = str(error).replace(f"{SKIN_SUFFIX}'", "'")
    names = list(dict.fromkeys(name.removesuffix(SKIN_SUFFIX) for name in error.stall.bodies))
    objects = " and ".join(f"objects.{name}" for name in names) or "the objects"
    shorter = f"shorter steps (frames.substeps = {2 * tables.frames.substeps})"
    match error.stall.cause:
        case "contact":
            tries = [shorter, f"slower motions of {objects}"]
            if tables.contact is not None:
                tries.insert(1, f"a larger contact.distance than {tables.contact.distance:g} m")
            if len(names) == 2:
                tries.append(f'contact.ignore = [["{names[0]}", "{names[1]}"]]')
        case "motion":
            tries = [shorter, f"slower keys, or keys that do not squeeze {objects}"]
        case "joint":
            tries = [f"leaving out a pin, keys or an attachment that keep {objects} apart"]
        case "motor":
            tries = [f"{keys}, so that the motor stalls" for keys in _forces(names, tables)]
        case "glue":
            tries = [
                'on_degenerate = "clamp" in the [[attach]] table',
                "more parents there",
                f"a stiffer material of {objects}",
                shorter,
            ]
        case "convergence":
            more = 2 * tables.solver.implicit.iterations
            tries = [
                shorter,
                f"solver.implicit.iterations = {more}",
                "a larger solver.implicit.tolerance",
                f"softer or heavier materials of {objects}",
            ]
    return f"{text}. Try {', or '.join(tries)}"


def _forces(names: list[str], tables: SceneFile) -> list[str]:
    """Return the keys for the greatest forces of the motors between two objects that have none."""
    return [
        f"attach.{number}.{motor}.{key}"
        for number, table in enumerate(tables.attach)
        if isinstance(table, JointAttach) and {table.source, table.to} == set(names)
        for motor, key in (("slide_motor", "max_force"), ("angle_motor", "max_torque"))
        if getattr(table, motor) is not None and getattr(getattr(table, motor), key) is None
    ]
