"""What the examples share: runs with a report of the time that they take, and files that are announced."""

import sys
import time
from pathlib import Path

import numpy as np

import pointglue as pg
from pointglue import view


def paths(name):
    """The paths on the command line, or that of the picture in the folder ``out``."""
    return [Path(word) for word in sys.argv[1:]] or [Path("out", f"{name}.png")]


def save_picture(picture, path):
    """Write a picture, and say so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.save(path)
    print(f"wrote {path}")


def save_movie(frames, path):
    """Write a movie of 30 frames per second, and say so."""
    view.save_movie(frames, path, fps=30)
    print(f"wrote {path}")


def run_implicit(solver, state, step, seconds, check=lambda state: None):
    """All states, each of them checked, and the seconds that all steps and their parts have taken."""
    states, spent = [state], {"all": 0.0}
    for _ in range(round(seconds / step)):
        begin = time.perf_counter()
        states.append(solver.step(states[-1], step))
        spent["all"] += time.perf_counter() - begin
        for part, value in states[-1].report.seconds.items():
            spent[part] = spent.get(part, 0.0) + value
        check(states[-1])
    return states, spent


def print_newton(states, spent):
    """Newton iterations, the time of a step, and the shares of its parts."""
    iterations = [state.report.iterations for state in states[1:]]
    print(f"Newton: {np.mean(iterations):.1f} iterations a step, {max(iterations)} at most; ", end="")
    print(f"{spent['all'] / len(iterations):.3f} s a step")
    print(", ".join(f"{part} {spent[part] / spent['all']:.1%}" for part in spent if part != "all"))


def print_contacts(states):
    """The most contacts, and how near surfaces came: not to zero."""
    reports = [state.report for state in states[1:]]
    gap, most = min(report.gap for report in reports), max(report.contacts for report in reports)
    print(f"{most} contacts at most, never nearer than {gap:.1g} m; nothing intersects in any frame")
    assert gap > 0


def run_particles(solver, state, frame, seconds):
    """All states and meshes, one for each frame, and how long a step and skinning take on one thread, ms."""
    states, meshes, times = [state], [solver.body.skin(state)], []
    with pg.threads(1):
        for _ in range(round(seconds / frame)):
            begin = time.process_time()
            states.append(solver.step(states[-1], frame))
            middle = time.process_time()
            meshes.append(solver.body.skin(states[-1]))
            times.append((middle - begin, time.process_time() - middle))
    return states, meshes, 1e3 * np.median(times, axis=0)
