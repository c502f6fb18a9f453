"""Parameter sweeps: one run for each combination of values, on all cores or on a cluster, and a table."""

import csv
import hashlib
import itertools
import json
import logging
import os
import re
import shutil
import threading
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

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
from .schema.loading import LoadedScene, load_scene, parse_setting

__all__ = ["Wedge", "draw_wedges", "parse_sweep", "run_wedges"]

MOST = 100_000  # wedges: more are a slip of the pen
ANSWER = "10s"  # within which a scheduler must answer
# What workers do first: signals that end the command often reach them as well, and each would die of them,
# or with a traceback. They end with the command.
DEAF = (
    "import signal\n"
    f"for number in {[int(one) for one in ENDING]}:\n"
    "    signal.signal(number, signal.SIG_IGN)\n"
)
LOSSES = 10  # how often the worker of a wedge may be lost before the wedge is given up
DIGITS = (6, 9, 12, 17)  # of numbers in names: as few as tell them apart
PLACES = {"low": "least height", "high": "greatest height", "drift": "how far its middle has gone"}
"""Metrics of an object, "low.flag": over all frames, but `drift` in the last."""

_stopping = threading.Event()  # see `stop_wedges`

Status = Literal["done", "failed", "skipped"]
Progress = Callable[["Wedge", int, int], None]


@dataclass(frozen=True)
class Wedge:
    """One combination of values, and what became of it."""

    settings: dict[str, Any]
    folder: Path
    status: Status = "done"
    """skipped: it had been done before."""
    error: str = ""
    seconds: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)


def parse_sweep(text: str) -> tuple[str, list[Any]]:
    """A key and its values from "key=a,b,c", or from "key=0:1:5": five numbers from 0 to 1."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not key or not value:
        raise SceneError(f"a setting must look like key=a,b,c or key=0:1:5, got {text!r}")
    if value.count(":") == 2 and not value.startswith(('"', "'", "[")):
        return key, _range(text, *value.split(":"))
    try:
        values = tomllib.loads(f"value = [{value}]")["value"]
    except (ValueError, RecursionError):
        values = [parse_setting(f"{key}={part}")[1] for part in value.split(",")]
    return key, list(values)


def _range(text: str, first: str, last: str, count: str) -> list[Any]:
    try:
        a, b, n = float(first), float(last), int(count)
    except ValueError:
        raise SceneError(f"a range must be first:last:count, three numbers, got {text!r}") from None
    if n > MOST:
        raise SceneError(f"a range must have at most {MOST:,} numbers, got {text!r}")
    if n < 2 or not np.isfinite([a, b]).all():
        raise SceneError(f"a range must have finite ends and at least 2 numbers, got {text!r}")
    values = np.linspace(a, b, n).tolist()
    whole = "." not in first + last and all(value == round(value) for value in values)
    return [round(value) for value in values] if whole else values


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
    """Run a scene file for every combination of values of its keys, each into a folder of its own in `out`.

    All local cores work on them, one wedge each; with `scheduler`, the address of a Dask scheduler, its
    workers, which must see scene file and folder under the same names. A wedge that fails does not stop the
    others, one whose worker is lost is run again from its last checkpoint, and one that has been done is not
    run again. `metrics` are names of statistics, of which the table has the largest of all frames, or
    "low.NAME", "high.NAME" and "drift.NAME" of an object; by default all statistics. ``wedges.csv`` in `out`
    has a row for each; with `parquet`, so has ``wedges.parquet``. `progress` is called with every wedge
    that is through, how many are, and how many there are. Stopped by KeyboardInterrupt, it leaves a table of
    those that are through.
    """
    if parquet:
        _need("pyarrow", "Parquet files need pyarrow: pip install 'pointglue[cluster]'")
    _need("distributed", "wedges need Dask: pip install 'pointglue[cluster]'")
    path, folder = Path(scene).absolute(), Path(out).absolute()
    wedges = _planned(sweeps, folder)
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    found: dict[Path, Wedge] = {}
    left: list[Wedge] = []
    wrong: dict[Path, SceneError] = {}

    def through(wedge: Wedge) -> None:
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
        before = _finished(wedge, _hash(loaded), metrics)
        if before is None:
            left.append(wedge)
        else:
            through(before)
    if len(wrong) == len(wedges):
        raise wrong[wedges[0].folder]
    for wedge in wedges:
        if wedge.folder in wrong:
            through(_failed(wedge, "; ".join(wrong[wedge.folder].problems)))
    try:
        if left:
            with _client(scheduler, len(left)) as client:
                for wedge in _results(client, path, left, list(metrics)):
                    through(wedge)
    except BaseException:  # a signal most often, or what it has led to
        if found:
            write_table(folder / "wedges.csv", _in_order(found, wedges), parquet=parquet)
        raise
    done = _in_order(found, wedges)
    write_table(folder / "wedges.csv", done, parquet=parquet)
    return done


def _in_order(found: Mapping[Path, Wedge], planned: Sequence[Wedge]) -> list[Wedge]:
    """What became of the wedges that are through, in the order in which they were planned."""
    return [found[wedge.folder] for wedge in planned if wedge.folder in found]


def _planned(sweeps: Mapping[str, Sequence[Any]], folder: Path) -> list[Wedge]:
    """All combinations, the last key running fastest."""
    if not sweeps:
        raise SceneError("a wedge needs at least one key with values")
    count = int(np.prod([len(values) for values in sweeps.values()], dtype=object))
    if not 1 <= count <= MOST:
        raise SceneError(f"there must be 1 to {MOST:,} combinations of values, got {count:,}")
    planned = {}
    for values in itertools.product(*sweeps.values()):
        settings = dict(zip(sweeps, values, strict=True))
        planned[_name(settings)] = Wedge(settings, folder / _name(settings))
    return list(planned.values())


def _name(settings: Mapping[str, Any]) -> str:
    """What a folder is called: keys and values as far as they fit, and what tells it from all others."""
    words = [f"{_short(key, settings)}={_plain(value)}" for key, value in settings.items()]
    text = re.sub(r"[^\w=.+-]+", "_", ",".join(words)).strip("_.")[:60]
    code = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()
    return f"{text}-{code[:8]}"


def _short(key: str, keys: Iterable[str]) -> str:
    """The end of a key, from its last word on; where another key ends alike, after a part of its own."""
    parts = key.split(".")
    last_word = next((k for k in reversed(range(len(parts))) if not parts[k].isdecimal()), 0)
    end = ".".join(parts[last_word:])
    alike = [other.split(".") for other in keys if other != key and f".{other}".endswith(f".{end}")]
    if not alike:
        return end
    own = [part for part in parts[:last_word] if not any(part in other for other in alike)]
    return f"{own[-1]}.{end}" if own else key


def _plain(value: Any, digits: int = DIGITS[0]) -> str:
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def _check_metrics(metrics: Sequence[str], scene: LoadedScene) -> None:
    objects = scene.tables.objects
    for metric in metrics:
        kind, dot, name = metric.partition(".")
        if not ((dot and kind in PLACES and name in objects) or metric in STATS):
            known = [*STATS, *(f"{kind}.NAME" for kind in PLACES)]
            raise SceneError(f"metric must be one of {', '.join(known)}, NAME an object, got {metric!r}")


def _hash(scene: LoadedScene) -> str:
    """Of what a finished wedge depends on: the scene, and how long it is."""
    return f"{scene_hash(scene)} {scene.tables.frames.count} {scene.tables.output.formats}"


def _finished(wedge: Wedge, hash: str, metrics: Sequence[str]) -> Wedge | None:
    """A wedge that has been done before, with the metrics wanted now."""
    try:
        told = json.loads((wedge.folder / "wedge.json").read_text(encoding="utf-8"))
        if told["hash"] != hash:
            return None
        numbers = _measured(wedge.folder, metrics)
        return Wedge(wedge.settings, wedge.folder, "skipped", "", float(told["seconds"]), numbers)
    except (OSError, ValueError, KeyError, TypeError, PointglueError):
        return None  # not there, or not whole


def _failed(wedge: Wedge, error: str) -> Wedge:
    return Wedge(wedge.settings, wedge.folder, "failed", error)


def run_wedge(scene: str, settings: dict[str, Any], folder: str, metrics: list[str]) -> dict[str, Any]:
    """Run one wedge in this process, from where it was stopped; what became of it."""
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
            seconds, numbers = perf_counter() - begin, _measured(wedge.folder, metrics)
            target = wedge.folder / "wedge.json"
            told = {"hash": _hash(loaded), "seconds": seconds, "settings": settings}
            with explain_write_errors(target), atomic_write(target) as draft:
                draft.write_text(json.dumps(told, indent=1, default=str) + "\n", encoding="utf-8")
        done = Wedge(settings, wedge.folder, "done", "", seconds, numbers)
    except Exception as error:  # of any kind: the other wedges go on
        reason = str(error) if isinstance(error, PointglueError) else f"{type(error).__name__}: {error}"
        done = _failed(wedge, reason)
    return asdict(done)


def stop_wedges() -> None:
    """End the wedges of this process after the frames that they are at, for good."""
    _stopping.set()


def _can_go_on(folder: Path, scene: LoadedScene) -> bool:
    """Whether there is nothing in the folder, or a run of this scene that is no longer than it is now."""
    try:
        store = FrameStore.open(folder)
    except InputError:
        return not folder.exists()
    last = scene.tables.frames.end
    return store.scene_hash == scene_hash(scene) and all(number <= last for number in store.numbers())


def _measured(folder: Path, metrics: Sequence[str]) -> dict[str, float]:
    """The metrics of a run that is whole."""
    store = FrameStore.open(folder)
    stats: dict[str, float] = {}
    places: dict[str, float] = {}
    wanted = [metric.split(".", 1) for metric in metrics if metric.partition(".")[0] in PLACES]
    first: dict[str, Any] = {}
    for frame in store:
        for name, value in frame.stats.items():
            stats[name] = max(value, stats.get(name, value))
        positions = store.positions(frame) if wanted else {}
        for kind, name in wanted:
            points = positions.get(name)
            if points is None:
                raise SceneError(f"{kind}.{name}: {name!r} is not visible, so that it cannot be measured")
            middle = first.setdefault(name, points.mean(0))
            value = {
                "low": float(points[:, 1].min()),
                "high": float(points[:, 1].max()),
                "drift": float(np.linalg.norm(points.mean(0) - middle)),
            }[kind]
            key = f"{kind}.{name}"
            before = places.get(key, value)
            places[key] = {"low": min(before, value), "high": max(before, value), "drift": value}[kind]
    if not metrics:
        return stats
    return {name: places[name] if name in places else stats.get(name, float("nan")) for name in metrics}


@contextmanager
def _client(scheduler: str | None, count: int) -> Iterator[Any]:
    """A client of that scheduler, or of a cluster of processes of this machine that ends with it."""
    import dask
    from distributed import Client, LocalCluster

    quiet = {"distributed.scheduler.allowed-failures": LOSSES, "distributed.worker.daemon": True}
    with dask.config.set(quiet):
        if scheduler is not None:
            try:
                with Client(scheduler, timeout=ANSWER) as client:
                    yield client
                    return
            except (OSError, TimeoutError, ValueError) as error:
                raise PointglueError(f"no scheduler answers at {scheduler!r}: {error}") from error
        workers = min(count, process_cores())
        options: dict[str, Any] = {"dashboard_address": ":0", "silence_logs": logging.CRITICAL}
        options |= {"n_workers": workers, "threads_per_worker": 1, "processes": True}
        options["preload"] = [DEAF]
        with LocalCluster(**options) as cluster, Client(cluster) as client:
            try:
                yield client
            except KeyboardInterrupt:
                client.run(stop_wedges, on_error="ignore")
                raise


def _results(client: Any, scene: Path, wedges: list[Wedge], metrics: list[str]) -> Iterator[Wedge]:
    """The wedges as they come; those of lost workers are run by others."""
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
                wedge, f"its worker was lost {LOSSES + 1} times: it may need more memory than there is"
            )
        except Exception as error:  # a worker without pointglue, say
            yield _failed(wedge, f"{type(error).__name__}: {error}")


def process_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def write_table(path: Path, wedges: Sequence[Wedge], *, parquet: bool = False) -> list[Path]:
    """A row for each wedge: its values, what became of it, and its metrics."""
    names = list(dict.fromkeys(name for wedge in wedges for name in wedge.metrics))
    rows = [
        {
            **{
                key: _plain(value) if isinstance(value, list | dict) else value
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
    import pyarrow
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
    """Draw the last frame of each wedge, or that it failed, with its values below; none if all failed."""
    whole = [wedge for wedge in wedges if wedge.status != "failed"]
    if not whole:
        return []
    labels = _labels([wedge.settings for wedge in wedges])
    drawn = last_pictures([wedge.folder for wedge in whole])
    failed = text_picture("failed", size=(drawn[0].shape[1], drawn[0].shape[0]))
    left = iter(drawn)
    pictures = [failed if wedge.status == "failed" else next(left) for wedge in wedges]
    save_png(contact_sheet(pictures, labels), path)
    return [path]


def _labels(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """A text for each wedge that tells it from all others: its values of the keys that have several."""
    columns = {key: _told_apart([each[key] for each in settings]) for key in settings[0]}
    varying = {key: texts for key, texts in columns.items() if len(set(texts)) > 1} or columns
    names = [_short(key, varying) for key in varying]
    if len(set(names)) < len(names):
        names = list(varying)
    rows = zip(*varying.values(), strict=True)
    return [", ".join(map("=".join, zip(names, row, strict=True))) for row in rows]


def _told_apart(values: Sequence[Any]) -> list[str]:
    """Texts of values, with as many digits as it takes that different values have different ones."""
    count = len({repr(value) for value in values})
    for digits in DIGITS:
        texts = [_plain(value, digits) for value in values]
        if len(set(texts)) == count:
            return texts
    return [repr(value) for value in values]


def _need(module: str, text: str) -> None:
    from importlib.util import find_spec

    if find_spec(module) is None:
        raise MissingDependencyError(text)
