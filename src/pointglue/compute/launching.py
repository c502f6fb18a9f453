"""Calls of kernels without numba's look at the types of their arguments.

At every call numba finds out the types of all arguments: 2 to 4 us for records of many arrays, which is as
long as a kernel takes for some hundred particles. A solver calls its kernels with the same types all the
time, and a :class:`Launcher` looks at them once.
"""

from collections.abc import Callable
from typing import Any

import numba

from .parallel import run

__all__ = ["Launcher"]


class Launcher:
    """Calls kernels whose arguments have the same types at every call.

    The first call of a kernel decides on the types of its arguments: numbers stay of one kind, and arrays of
    one dtype, number of dimensions and layout. What owns the arrays, a solver for example, has a launcher of
    its own and sees to that.
    """

    def __init__(self) -> None:
        self._compiled: dict[Callable[..., Any], Callable[..., Any]] = {}

    def _specialised(self, kernel: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
        """Return the machine code of a kernel for arguments of these types, or the kernel itself."""
        compiled = self._compiled.get(kernel)
        if compiled is None:
            compiled = kernel
            if hasattr(kernel, "compile"):  # not if numba is switched off
                compiled = kernel.compile(tuple(numba.typeof(argument) for argument in arguments))
            self._compiled[kernel] = compiled
        return compiled

    def call(self, kernel: Callable[..., Any], *arguments: Any) -> Any:
        """Call ``kernel(*arguments)`` and return its result."""
        compiled = self._compiled.get(kernel) or self._specialised(kernel, *arguments)
        return compiled(*arguments)

    def run(self, kernel: Callable[..., Any], count: int, grain: int, *arguments: Any) -> None:
        """Call ``kernel(start, stop, *arguments)`` over ``range(count)``, split between threads."""
        compiled = self._compiled.get(kernel) or self._specialised(kernel, 0, count, *arguments)
        run(compiled, count, grain, *arguments)
