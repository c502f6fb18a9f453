"""Mixtures of exact and projected Hessians that Newton's method tries in turn."""

from dataclasses import dataclass

__all__ = ["MAX_MIXTURE_STEPS", "PROJECTED_FRACTIONS", "Mixture"]

# Fractions of the projected Hessian, tried in turn until the matrix is definite. Where little is wrong with
# the exact one, the projected one is far too stiff, and leaves a saddle in dozens of short steps.
PROJECTED_FRACTIONS = (0.0, 1 / 2, 1.0)
# most full steps with one mixture before one with less of the projected Hessian is tried
MAX_MIXTURE_STEPS = 8


@dataclass
class Mixture:
    """Which mixture of exact and projected Hessians is tried next.

    It is handed on from step to step: where surfaces press, exact Hessians are indefinite for many steps, and
    each try costs a factorisation.

    Parameters
    ----------
    level : int
        Which of PROJECTED_FRACTIONS it is.
    wait : int
        The number of full Newton steps until a mixture with less of the projected Hessian is tried.
    pause : int
        That number after the next mixture that fails.
    """

    level: int = 0
    wait: int = 0
    pause: int = 1

    @property
    def fraction(self) -> float:
        """The fraction of the projected Hessian."""
        return PROJECTED_FRACTIONS[self.level]

    def stiffen(self) -> bool:
        """Take the next mixture, since this one has failed; return whether there is one."""
        if self.level + 1 == len(PROJECTED_FRACTIONS):
            return False
        self.level += 1
        self.wait, self.pause = self.pause, min(2 * self.pause, MAX_MIXTURE_STEPS)
        return True

    def relax(self, *, full: bool) -> None:
        """Take the mixture before this one, if there have been enough full steps."""
        self.wait -= full
        self.level = max(self.level - (self.wait <= 0), 0)
