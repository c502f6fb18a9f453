"""Steps that do not converge: where they are stuck, and what is said of it."""

from collections.abc import Callable

from ....checks import Array
from ....errors import ConvergenceError
from ...state import Stall, StallCause
from ..objective import Evaluation, Objective

__all__ = ["StalledError", "collapsed_glue", "locate_stall", "nearest_contact", "no_start", "open_joint"]

# ratio of their width at rest: parents of glue that are narrower, where a step fails, are why it does
COLLAPSED_SPREAD = 1e-2


class StalledError(ConvergenceError):
    """A step did not converge.

    Parameters
    ----------
    message : str
        How far it came.
    locate : callable
        A function that returns where it is stuck. It is called only where the step is not tried again, since
        the search may take long.
    iterations : int
        How many Newton steps were taken.
    blocked : bool
        Whether contact was in the way of the last of them.
    """

    def __init__(
        self, message: str, locate: Callable[[], Stall], iterations: int = 0, *, blocked: bool = False
    ) -> None:
        super().__init__(message)
        self.locate, self.iterations, self.blocked = locate, iterations, blocked


def locate_stall(
    objective: Objective, now: Evaluation, multipliers: Array, worst: int, *, blocked: bool, violation: float
) -> Stall:
    """Return where a step is stuck: at an open joint, the nearest contact, or what would still move most."""
    system, model = objective.system, objective.system.model
    by = objective.open_by(now, multipliers)
    if by.max(initial=0.0) > violation:
        row = system.equations[int(by.argmax())]
        joint, place = int(model.constraints.joint_of[row]), now.x[model.constraints.anchors[row]]
        if (motor := model.unyielding_motor(joint)) is not None:
            return Stall.at("motor", motor[1], place)
        return Stall.at("joint", model.joined_bodies(joint), place)
    if blocked and (met := nearest_contact(objective, now)) is not None:
        return met
    dofs = system.dofs
    if not len(dofs):
        return Stall("convergence")
    cause: StallCause = "contact" if blocked else "convergence"
    if worst < len(dofs.particles):
        particle = int(dofs.particles[worst])
        return Stall.at(cause, (model.body_named(particle) or "",), now.x[particle])
    body = int(dofs.bodies[(worst - len(dofs.particles)) // 2])
    return Stall.at(cause, (model.rigid[body].name,), now.configuration.origins[body])


def nearest_contact(objective: Objective, now: Evaluation) -> Stall | None:
    """Return the stall between the two bodies in contact that are nearest to each other, if there are any."""
    sides = None if objective.contact is None else objective.contact.nearest(now.x)
    if sides is None:
        return None
    model = objective.system.model
    names = dict.fromkeys(model.body_named(int(side[0])) or "" for side in sides)
    return Stall.at("contact", tuple(names), now.x[sides[0]].mean(0))


def no_start(objective: Objective) -> StalledError:
    """Return the error for a step that has nowhere to begin."""
    if objective.collapsed is None:
        return StalledError("no starting point has a finite energy", lambda: Stall("convergence"))
    return _collapsed_parents(objective, objective.collapsed)


def collapsed_glue(objective: Objective, end: Evaluation, iterations: int) -> StalledError | None:
    """Return the error for a step that ends with parents of glue that have all but collapsed, if any have."""
    particle, spread = end.pose.narrowest()
    if particle is None or spread >= COLLAPSED_SPREAD:
        return None
    return _collapsed_parents(objective, particle, iterations)


def _collapsed_parents(objective: Objective, particle: int, iterations: int = 0) -> StalledError:
    """Return the error for a step that ends because the parents of a bound particle have collapsed."""
    what, bodies = objective.system.model.describe_glue(particle)
    return StalledError(
        f"the parents of {what} have collapsed to a line or a point, and tell no frame: bind it with "
        'on_degenerate="clamp", to parents that are farther apart, or make their body stiffer',
        lambda: Stall.at("glue", bodies, objective.before.positions[particle]),
        iterations,
    )


def open_joint(
    objective: Objective, now: Evaluation, multipliers: Array, allowed: float, redundant: int
) -> str:
    """Return a text that tells which joint is open, or an empty one; and how many equations are redundant."""
    system, constraints = objective.system, objective.system.model.constraints
    by = objective.open_by(now, multipliers)
    if not by.max(initial=0.0) > allowed:
        return ""
    row = int(system.equations[int(by.argmax())])
    joint = int(constraints.joint_of[row])
    name = constraints.describe(row) + system.model.describe_joint(joint)
    motor = system.model.unyielding_motor(joint)
    return (
        f"; {name} stays {by.max():.3g} m open: something "
        f"holds against it ({redundant} of {len(system.equations)} equations of joints are redundant)"
    ) + ("" if motor is None else f"; {motor[0]} has unlimited force: with a max_force it stalls")
