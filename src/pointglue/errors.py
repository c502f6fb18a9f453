"""The exceptions of pointglue, a small family by cause."""

__all__ = [
    "BindingCycleError",
    "ConvergenceError",
    "DegenerateFitError",
    "InputError",
    "IntersectionError",
    "MissingDependencyError",
    "PointglueError",
    "PointglueWarning",
    "SceneError",
]


class PointglueError(Exception):
    """Base of every error that pointglue raises on purpose."""


class InputError(PointglueError, ValueError):
    """An argument or file is not what was asked for; the message names it and says what arrived."""


class IntersectionError(InputError):
    """Bodies that contact keeps apart intersect at the start.

    `pairs` has the names of those that do, `counts` how many crossings of an edge and a face were found of
    each pair, and `places` (m) where one of these is. No more than `most` are counted of a pair.
    """

    def __init__(
        self,
        message: str,
        pairs: tuple[tuple[str, str], ...],
        counts: tuple[int, ...],
        places: tuple[tuple[float, float, float], ...],
        most: int,
    ) -> None:
        super().__init__(message, pairs, counts, places, most)
        self.pairs, self.counts, self.places, self.most = pairs, counts, places, most

    def __str__(self) -> str:
        return str(self.args[0])


class BindingCycleError(InputError):
    """Particles are bound to each other in a cycle.

    `cycle` has them, each bound to the next, and the first again as the last; `names` says what they are.
    """

    def __init__(self, cycle: tuple[int, ...], names: tuple[str, ...]) -> None:
        super().__init__(cycle, names)
        self.cycle, self.names = cycle, names

    def __str__(self) -> str:
        shown = self.names if len(self.names) <= 8 else (*self.names[:7], "...", self.names[-1])
        return f"particles are bound to each other in a cycle: {' needs '.join(shown)}"


class DegenerateFitError(PointglueError, ArithmeticError):
    """The points do not determine a rotation: they are collinear, coincident or mirrored.

    `target` is the number of the first bound point that has no frame, where points are bound.
    """

    def __init__(self, message: str, target: int | None = None) -> None:
        super().__init__(message, target)
        self.target = target

    def __str__(self) -> str:
        return str(self.args[0])


class ConvergenceError(PointglueError, ArithmeticError):
    """A solver stopped before it reached its tolerance."""


class MissingDependencyError(PointglueError, ImportError):
    """An optional package is not installed; the message says how to install it."""


class SceneError(PointglueError, ValueError):
    """A scene cannot be built or run; `problems` lists all that is wrong with it, a line each."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class PointglueWarning(UserWarning):
    """Something was not as expected and has been dealt with; the message says how."""
