"""What running a scene and writing its frames adds to the time that the solver and skinning take.

Processor time, the solver on one thread. Frames are written by a thread of their own: where a core is idle,
only what the thread of the solver does counts. The system's share is what its calls take, for files mostly.
That share depends on the disk: ext4 without a journal looks long for a place for a file near others that
were removed in the last minutes, and virtual machines take long for memory that they have not used before.

pointglue bench scenes [--markdown] [--quick] [--json FILE]
"""

import io
import resource
import tempfile
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from _racing import Results, Row, main, race

import pointglue as pg
from pointglue.io.archives import ArchiveTemplate, write_chunks
from pointglue.scene import demo_path, load_scene, run_scene

SCENES = ("octopus", "hanging_cloth", "bodies_on_stairs", "underwater")
HEADINGS = [
    "scene, a frame",
    "solver",
    "skinning",
    "written",
    "its thread",
    "with the writer",
    "the system's share",
]


class Timed:
    """A simulation that knows how long its solver and its skinning have taken."""

    def __init__(self, simulation):
        self._simulation, self.solving, self.skinning = simulation, 0.0, 0.0

    def __getattr__(self, name):
        return getattr(self._simulation, name)

    def advance(self, state, **options):
        begin = time.thread_time()
        try:
            return self._simulation.advance(state, **options)
        finally:
            self.solving += time.thread_time() - begin

    def frame(self, state):
        begin = time.thread_time()
        try:
            return self._simulation.frame(state)
        finally:
            self.skinning += time.thread_time() - begin


def measured(name, frames, folder):
    """ms a frame of solver, skinning, their thread, all threads of a run to disk, the system; MB a frame."""
    loaded = load_scene(demo_path(name), {"frames.count": frames})
    with pg.threads(1), run_scene(loaded, folder) as run:
        timed = run.simulation = Timed(run.simulation)
        next(run)
        timed.skinning, begin, own, system = 0.0, time.process_time(), time.thread_time(), system_time()
        for _ in run:
            pass
        own, whole = time.thread_time() - own, time.process_time() - begin
        system = system_time() - system
        written = sum(path.stat().st_size for path in (folder / "frames").iterdir())
    spent = np.array([timed.solving, timed.skinning, own, whole, system])
    return 1e3 * spent / (frames - 1), written / frames / 1e6


def system_time():
    """What this process has spent in the system, in seconds."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_stime


def archives(folder: Path) -> Row:
    """Race the files of frames, packed and written, against `zipfile` with the same fixed dates."""
    rng, target = np.random.default_rng(0), folder / "frame.npz"
    arrays = {f"points/object {k}": rng.random((1417, 3)).astype(np.float32) for k in range(20)}
    template = ArchiveTemplate(arrays)

    def by_zipfile():
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            for name, array in arrays.items():
                entry = io.BytesIO()
                np.lib.format.write_array(entry, array, allow_pickle=False)
                archive.writestr(zipfile.ZipInfo(f"{name}.npy"), entry.getvalue())
        write_chunks(target, [content.getvalue()])

    def both():
        return race(
            "file of a frame, 340 kB in 20 arrays, packed and written",
            "zipfile",
            1,
            lambda: write_chunks(target, template.chunks()),
            by_zipfile,
        )

    rows = [both() for _ in range(10)]
    return replace(rows[0], ours=min(row.ours for row in rows), theirs=min(row.theirs for row in rows))


def measure(quick: bool = False) -> Results:
    rows, cells = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name in SCENES:
            spent, size = measured(name, 24 if quick else 240, Path(folder) / name)
            solving, skinning, own, whole, system = spent
            work = solving + skinning
            rows.append(Row(f"frame of {name}, solver and skinning", 1e-3 * work))
            rows.append(Row(f"frame of {name}, written to disk as well", 1e-3 * whole))
            shares = [f"{share / work:.1%}" for share in (own - work, whole - work, system)]
            cells.append([name, f"{solving:.1f} ms", f"{skinning:.2f} ms", f"{size:.2f} MB", *shares])
        row = archives(Path(folder))
    note = f"{row.work}: {1e3 * row.ours:.2f} ms, by {row.peer} {1e3 * row.theirs:.2f} ms"
    return Results("scenes", [*rows, row], [note], headings=HEADINGS, cells=cells)


if __name__ == "__main__":
    main("scenes")
