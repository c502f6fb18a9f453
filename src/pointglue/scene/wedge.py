"""Runs of parameter sweeps: one for each wedge, on all cores or on a cluster, and a table of all."""

import csv
import json
import logging
import os
import shutil
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from ..compute import threads
from ..errors import InputError, MissingDependencyError, PointglueError, PointglueWarning, SceneError
from ..files import atomic_write, explain_write_errors
from ..io.frames import FrameStore
from ..io.signals import ENDING
from ..view import contact_sheet, last_pictures
from ..view.output import save_png
from ..view.sheets import text_picture
from .engines import STATS
from .identity import scene_hash
from .run import run_scene
from .schema.loading import LoadedScene, load_scene
from .sweeps import Wedge, plain_text, planned_wedges, wedge_labels

__all__ = ["draw_wedges", "run_wedges"]

CONNECT_TIMEOUT = "10s"  # within which a scheduler must answer
# What workers run first: signals that end the command often reach the workers too, which would die or print a
# traceback. They ignore signals and end with the command.
IGNORE_SIGNALS = (
    "import signal\n"
    f"for number in {[int(one) for one in ENDING]}:\n"
    "    signal.signal(number, signal.SIG_IGN)\n"
)
MOST_LOSSES = 10  # how often the worker of a wedge may be lost before the wedge is given up
OBJECT_METRICS = {
    "low": "least height [m]",
    "high": "greatest height [m]",
    "drift": "distance of the centroid from where it started [m]",
}
"""Metrics of an object, "low.flag" say: over all frames, but `drift` in the last."""

_stopping = threading.Event()  # see `stop_wedges`

Progress = Callable[[Wedge, int, int], None]


def run_wedges(
    scene: str | Path,
    sweeps: Mapping[str, Sequence[Any]],
    out: str | Path,
    *,
    scheduler: str | None = None,
    metrics: Sequence[str] = (),
    parquet: bool = False,
    progress: Progress | None = None,
) -> list[Wedge]:
    """Run a scene file for every combination of values of its keys, each into a folder of its own.

    A wedge that fails does not stop the others, one whose worker is lost is run again from its last
    checkpoint, and one that has been done is not run again. ``wedges.csv`` in `out` has a row for each. If
    KeyboardInterrupt stops it, the table has those that are finished.

    Parameters
    ----------
    scene : str or Path
        The scene file.
    sweeps : mapping of str to sequence
        The values of each key.
    out : str or Path
        The folder of the table and of the folders of all wedges.
    scheduler : str, optional
        The address of a Dask scheduler, whose workers must see scene file and folder under the same names.
        Without, all cores of this machine work on them, one wedge each.
    metrics : sequence of str
        Names of statistics, of which the table has the largest of all frames, or "low.NAME", "high.NAME" and
        "drift.NAME" of an object [m]; all statistics if there are none.
    parquet : bool
        Whether to write ``wedges.parquet`` as well.
    progress : callable, optional
        Called with every wedge that is finished, how many are, and how many there are.

    Returns
    -------
    list of Wedge
        All combinations, the last key running fastest.

    Raises
    ------
    SceneError
        If no combination can be run.
    MissingDependencyError
        If Dask is not installed, or pyarrow for `parquet`.
    """
    if parquet:
        _need("pyarrow", "Parquet files need pyarrow: pip install 'pointglue[cluster]'")
    _need("distributed", "wedges need Dask: pip install 'pointglue[cluster]'")
    path, folder = Path(scene).absolute(), Path(out).absolute()
    wedges = planned_wedges(sweeps, folder)
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    found: dict[Path, Wedge] = {}
    left: list[Wedge] = []
    wrong: dict[Path, SceneError] = {}

    def finish(wedge: Wedge) -> None:
        found[wedge.folder] = wedge
        if progress is not None:
            progress(wedge, len(found), len(wedges))

    for wedge in wedges:
        try:
            loaded = load_scene(path, wedge.settings)
            _check_metrics(metrics, loaded)
        except SceneError as error:
            wrong[wedge.folder] = error
            continue
        before = finished_wedge(wedge, wedge_hash(loaded), metrics)
        if before is None:
            left.append(wedge)
        else:
            finish(before)
    if len(wrong) == len(wedges):
        raise wrong[wedges[0].folder]
    for wedge in wedges:
        if wedge.folder in wrong:
            finish(_failed(wedge, "; ".join(wrong[wedge.folder].problems)))
    try:
        if left:
            with _client(scheduler, len(left)) as client:
                for wedge in _results(client, path, left, list(metrics)):
                    finish(wedge)
    except BaseException:  # a signal most often, or what it has led to
        if found:
            write_table(folder / "wedges.csv", _in_order(found, wedges), parquet=parquet)
        raise
    done = _in_order(found, wedges)
    write_table(folder / "wedges.csv", done, parquet=parquet)
    return done


def _in_order(found: Mapping[Path, Wedge], planned: Sequence[Wedge]) -> list[Wedge]:
    """Return the results of the wedges that are finished, in the order in which they were planned."""
    return [found[wedge.folder] for wedge in planned if wedge.folder in found]


def _check_metrics(metrics: Sequence[str], scene: LoadedScene) -> None:
    objects = scene.tables.objects
    for metric in metrics:
        kind, dot, name = metric.partition(".")
        if not ((dot and kind in OBJECT_METRICS and name in objects) or metric in STATS):
            known = [*STATS, *(f"{kind}.NAME" for kind in OBJECT_METRICS)]
            raise SceneError(f"metric must be one of {', '.join(known)}, NAME an object, got {metric!r}")


def wedge_hash(scene: LoadedScene) -> str:
    """Return a digest of what a finished wedge depends on: the scene, its length and its output."""
    return f"{scene_hash(scene)} {scene.tables.frames.count} {scene.tables.output.formats}"


def finished_wedge(wedge: Wedge, hash: str, metrics: Sequence[str]) -> Wedge | None:
    """Return a wedge that has been done before, with the metrics wanted now, or None."""
    try:
        record = json.loads((wedge.folder / "wedge.json").read_text(encoding="utf-8"))
        if record["hash"] != hash:
            return None
        numbers = measured_metrics(wedge.folder, metrics)
        return Wedge(wedge.settings, wedge.folder, "skipped", "", float(record["seconds"]), numbers)
    except (OSError, ValueError, KeyError, TypeError, PointglueError):
        return None  # missing or incomplete


def _failed(wedge: Wedge, error: str) -> Wedge:
    return Wedge(wedge.settings, wedge.folder, "failed", error)


def run_wedge(scene: str, settings: dict[str, Any], folder: str, metrics: list[str]) -> dict[str, Any]:
    """Run one wedge in this process, from where it was stopped, and return the fields of the result."""
    wedge, begin = Wedge(settings, Path(folder)), perf_counter()
    try:
        with warnings.catch_warnings(), threads(1):
            warnings.simplefilter("ignore", PointglueWarning)
            loaded = load_scene(scene, settings)
            if not _can_go_on(wedge.folder, loaded):
                shutil.rmtree(wedge.folder)
            with run_scene(loaded, wedge.folder, resume=True) as run:
                for _ in run:
                    if _stopping.is_set():
                        raise PointglueError("it was stopped, and can go on from its last frame")
            seconds, numbers = perf_counter() - begin, measured_metrics(wedge.folder, metrics)
            target = wedge.folder / "wedge.json"
            record = {"hash": wedge_hash(loaded), "seconds": seconds, "settings": settings}
            with explain_write_errors(target), atomic_write(target) as draft:
                draft.write_text(json.dumps(record, indent=1, default=str) + "\n", encoding="utf-8")
        done = Wedge(settings, wedge.folder, "done", "", seconds, numbers)
    except Exception as error:  # of any kind: the other wedges go on
        reason = str(error) if isinstance(error, PointglueError) else f"{type(error).__name__}: {error}"
        done = _failed(wedge, reason)
    return asdict(done)


def stop_wedges() -> None:
    """Stop the wedges of this process, each after its current frame; later ones stop after their first."""
    _stopping.set()


def _can_go_on(folder: Path, scene: LoadedScene) -> bool:
    """Return whether the folder is empty, or holds a run of this scene that is not longer than the scene."""
    try:
        store = FrameStore.open(folder)
    except InputError:
        return not folder.exists()
    last = scene.tables.frames.end
    return store.scene_hash == scene_hash(scene) and all(number <= last for number in store.numbers())


def measured_metrics(folder: Path, metrics: Sequence[str]) -> dict[str, float]:
    """Return the metrics of a finished run, by name."""
    store = FrameStore.open(folder)
    stats: dict[str, float] = {}
    places: dict[str, float] = {}
    wanted = [metric.split(".", 1) for metric in metrics if metric.partition(".")[0] in OBJECT_METRICS]
    first: dict[str, Any] = {}
    for frame in store:
        for name, value in frame.stats.items():
            stats[name] = max(value, stats.get(name, value))
        positions = store.positions(frame) if wanted else {}
        for kind, name in wanted:
            points = positions.get(name)
            if points is None:
                raise SceneError(f"{kind}.{name}: {name!r} is not visible, so that it cannot be measured")
            start = first.setdefault(name, points.mean(0))
            value = {
                "low": float(points[:, 1].min()),
                "high": float(points[:, 1].max()),
                "drift": float(np.linalg.norm(points.mean(0) - start)),
            }[kind]
            key = f"{kind}.{name}"
            before = places.get(key, value)
            places[key] = {"low": min(before, value), "high": max(before, value), "drift": value}[kind]
    if not metrics:
        return stats
    return {name: places[name] if name in places else stats.get(name, float("nan")) for name in metrics}


@contextmanager
def _client(scheduler: str | None, count: int) -> Iterator[Any]:
    """Yield a client of a scheduler, or of a cluster of processes of this machine that ends with it."""
    # Dask is optional, and takes a while to load.
    import dask
    from distributed import Client, LocalCluster

    quiet = {"distributed.scheduler.allowed-failures": MOST_LOSSES, "distributed.worker.daemon": True}
    with dask.config.set(quiet):
        if scheduler is not None:
            try:
                with Client(scheduler, timeout=CONNECT_TIMEOUT) as client:
                    yield client
                    return
            except (OSError, TimeoutError, ValueError) as error:
                raise PointglueError(f"no scheduler answers at {scheduler!r}: {error}") from error
        workers = min(count, process_cores())
        options: dict[str, Any] = {"dashboard_address": ":0", "silence_logs": logging.CRITICAL}
        options |= {"n_workers": workers, "threads_per_worker": 1, "processes": True}
        options["preload"] = [IGNORE_SIGNALS]
        with LocalCluster(**options) as cluster, Client(cluster) as client:
            try:
                yield client
            except KeyboardInterrupt:
                client.run(stop_wedges, on_error="ignore")
                raise


def _results(client: Any, scene: Path, wedges: list[Wedge], metrics: list[str]) -> Iterator[Wedge]:
    """Yield the wedges as they are finished; those of lost workers are run by others."""
    from distributed import KilledWorker, as_completed

    futures = {}
    for wedge in wedges:
        key = f"wedge-{wedge.folder.name}"
        arguments = (str(scene), wedge.settings, str(wedge.folder), metrics)
        futures[client.submit(run_wedge, *arguments, key=key, pure=False)] = wedge
    for future in as_completed(list(futures)):
        wedge = futures[future]
        try:
            yield Wedge(**future.result())
        except KilledWorker:
            yield _failed(
                wedge, f"its worker was lost {MOST_LOSSES + 1} times: it may need more memory than there is"
            )
        except Exception as error:  # a worker without pointglue, say
            yield _failed(wedge, f"{type(error).__name__}: {error}")


def process_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def write_table(path: Path, wedges: Sequence[Wedge], *, parquet: bool = False) -> list[Path]:
    """Write a table with a row for each wedge: values, status and metrics. Return the files."""
    names = list(dict.fromkeys(name for wedge in wedges for name in wedge.metrics))
    rows = [
        {
            **{
                key: plain_text(value) if isinstance(value, list | dict) else value
                for key, value in w.settings.items()
            },
            "folder": w.folder.name,
            "status": w.status,
            "seconds": round(w.seconds, 3),
            **{name: w.metrics.get(name) for name in names},
            "error": w.error,
        }
        for w in wedges
    ]
    with (
        explain_write_errors(path),
        atomic_write(path) as draft,
        draft.open("w", newline="", encoding="utf-8") as file,
    ):
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    if not parquet:
        return [path]
    import pyarrow  # optional
    import pyarrow.parquet

    target = path.with_suffix(".parquet")
    columns = {key: [row[key] for row in rows] for key in rows[0]}
    for key, values in columns.items():
        if len({type(value) for value in values if value is not None} - {int, float}) > 0 and not all(
            isinstance(value, str) or value is None for value in values
        ):
            columns[key] = [None if value is None else str(value) for value in values]
    with explain_write_errors(target), atomic_write(target) as draft:
        pyarrow.parquet.write_table(pyarrow.table(columns), draft)
    return [path, target]


def draw_wedges(wedges: Sequence[Wedge], path: Path) -> list[Path]:
    """Draw the last frame of each wedge on one sheet, with its values below.

    Parameters
    ----------
    wedges : sequence of Wedge
        What :func:`run_wedges` returned; those that failed are marked.
    path : Path
        The PNG file to write.

    Returns
    -------
    list of Path
        The file, or nothing if all wedges failed.
    """
    whole = [wedge for wedge in wedges if wedge.status != "failed"]
    if not whole:
        return []
    labels = wedge_labels([wedge.settings for wedge in wedges])
    drawn = last_pictures([wedge.folder for wedge in whole])
    failed = text_picture("failed", size=(drawn[0].shape[1], drawn[0].shape[0]))
    left = iter(drawn)
    pictures = [failed if wedge.status == "failed" else next(left) for wedge in wedges]
    save_png(contact_sheet(pictures, labels), path)
    return [path]


def _need(module: str, text: str) -> None:
    if find_spec(module) is None:
        raise MissingDependencyError(text)
