"""Run examples of the implicit solver again and again, each time from a start that is off by a micrometre.

Every run has to converge and to hold all that the example asserts.

pointglue bench jitter [--quick], or for others: python benchmarks/jitter.py EXAMPLE ...
"""

import contextlib
import io
import sys
import tempfile
import time
import traceback
from dataclasses import replace
from pathlib import Path

import numpy as np
from _racing import Results, example

from pointglue.elastic import ImplicitSolver
from pointglue.glue import BodyFrames

SCENES = ("tree", "implicit_jelly", "soft_chain", "glue_in_solver", "cloth_with_buttons")
NOISE = 1e-6  # m and m/s


class Shaken:
    """Starts of all solvers with noise on all that is free to move."""

    def __init__(self, seed):
        self.rng, self.exact, self.solvers = np.random.default_rng(seed), ImplicitSolver.start, 0

    def __call__(self, solver):
        state, scene = self.exact(solver), solver.model
        self.solvers += 1

        def noisy(values, free):
            return values + NOISE * free[:, None] * self.rng.standard_normal(values.shape)

        points, bodies = ~scene.pinned, ~scene.fixed
        origins, linear = (noisy(each, bodies) for each in (state.origins, state.origin_velocities))
        # What is glued goes with what it is glued to; joints are open, and close in the first step.
        pose = scene.assembly(state.pending, scene.rest).at(
            noisy(state.particles, points), BodyFrames(origins, state.rotations)
        )
        return replace(
            state,
            particles=pose.positions,
            particle_velocities=pose.velocities(
                noisy(state.particle_velocities, points), np.hstack([linear, state.spins])
            ),
            origins=origins,
            origin_velocities=linear,
        )


def shaken_run(name, seed):
    """Run an example and return what it printed."""
    said, shaken = io.StringIO(), Shaken(seed)

    def start(solver):  # a function, which becomes a method, as an object that can be called does not
        return shaken(solver)

    ImplicitSolver.start = start
    try:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(said):
            example(name)["main"](Path(folder) / "picture.png", None)
    finally:
        ImplicitSolver.start = shaken.exact
    assert shaken.solvers, f"{name} starts no implicit solver"
    return said.getvalue()


def measure(quick=False, examples=SCENES):
    """Run the examples; `quick` is twice each, otherwise ten times."""
    runs, failed, cells = 2 if quick else 10, 0, []
    for name in examples:
        begin = time.perf_counter()
        for seed in range(runs):
            try:
                shaken_run(name, seed)
            except Exception as error:
                failed += 1
                line = traceback.extract_tb(error.__traceback__)[-1].line
                print(f"{name}, seed {seed}: {type(error).__name__}: {error} ({line})", flush=True)
        cells.append([name, f"{runs} runs", f"{time.perf_counter() - begin:.0f} s"])
        print(*cells[-1], flush=True)
    if failed:
        raise SystemExit(f"{failed} runs failed")
    return Results("jitter", [], headings=("example", "converged", "time"), cells=cells)


if __name__ == "__main__":
    named = [word for word in sys.argv[1:] if not word.startswith("--")]
    measure(quick="--quick" in sys.argv, examples=named or SCENES)
