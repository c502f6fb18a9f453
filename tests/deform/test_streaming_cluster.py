"""Clouds deformed by a Dask cluster: the same bits, few tasks at a time, and failures that are told."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from dask import distributed
from streams import COUNT, VERTEX, leftovers, ply, records

from pointglue.deform.streaming import deform_cloud
from pointglue.errors import InputError


class Laggard:
    """A client of two threads that does nothing before it is asked for a result."""

    def __init__(self):
        self.tasks, self.most, self.cancelled = [], 0, 0

    def nthreads(self):
        return {"one": 1, "two": 1}

    def submit(self, function, *arguments, pure):
        assert not pure
        self.tasks.append(partial(function, *arguments))
        self.most = max(self.most, len(self.tasks))
        return self

    def result(self):
        return self.tasks.pop(0)()

    def cancel(self, futures):
        self.cancelled += len(futures)


class TestClient:
    def test_few_tasks_wait(self, scene, tmp_path):
        client = Laggard()
        np.save(tmp_path / "a.npy", scene.points)
        deform_cloud(
            tmp_path / "a.npy", tmp_path / "b.npy", scene.handles, scene.now, chunk=20, client=client
        )
        assert (client.most, client.cancelled) == (4, 0)
        assert (np.load(tmp_path / "b.npy") == scene.moved()).all()

    def test_a_failure_cancels_the_rest(self, scene, tmp_path):
        client = Laggard()
        scene.points[25] = np.nan
        np.save(tmp_path / "a.npy", scene.points)
        with pytest.raises(InputError, match="point 25 must be finite"):
            deform_cloud(
                tmp_path / "a.npy", tmp_path / "b.npy", scene.handles, scene.now, chunk=20, client=client
            )
        assert client.cancelled == 4
        assert not leftovers(tmp_path, "a.npy")

    def test_an_asynchronous_client(self, scene, tmp_path):
        client = Laggard()
        client.asynchronous = True
        with pytest.raises(
            InputError, match=r"must be a synchronous dask.distributed.Client, got <.*Laggard"
        ):
            deform_cloud(scene.points, tmp_path / "b.npy", scene.handles, scene.now, client=client)

    def test_arrays_stay_here(self, scene, tmp_path):
        np.save(tmp_path / "a.npy", scene.points)
        for source, target in [(scene.points, "b.npy"), (tmp_path / "a.npy", scene.points)]:
            with pytest.raises(
                InputError, match="with a client, source and target must be files, got an array"
            ):
                deform_cloud(source, target, scene.handles, scene.now, client=Laggard())


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


class TestCluster:
    def test_same_bits(self, client, scene, tmp_path, monkeypatch, rng):
        """And relative names are those of this process, not of the workers."""
        monkeypatch.chdir(tmp_path)
        np.save("a.npy", scene.points)
        rows = records(scene.points, VERTEX[:4], rng)
        Path("a.ply").write_bytes(ply(rows))
        for suffix in (".npy", ".ply"):
            for name, chosen in (("b", None), ("c", client)):
                deform_cloud(
                    "a" + suffix,
                    name + suffix,
                    scene.handles,
                    scene.now,
                    stretch=0.3,
                    chunk=20,
                    client=chosen,
                )
            assert Path("b" + suffix).read_bytes() == Path("c" + suffix).read_bytes()
        assert (np.load("c.npy") == scene.moved(stretch=0.3)).all()
        assert not leftovers(tmp_path, *(name + suffix for name in "abc" for suffix in (".npy", ".ply")))

    def test_a_task_that_fails(self, client, scene, tmp_path):
        rows = np.zeros(COUNT, [(name, "i2") for name in "xyz"])
        rows["x"][200] = 2**15 - 1
        np.save(tmp_path / "a.npy", rows)
        (tmp_path / "b.npy").write_bytes(b"from before")
        rest = np.zeros((1, 3))
        with pytest.raises(
            InputError, match=r"a\.npy: x of point 200 becomes 32768, which does not fit int16"
        ):
            deform_cloud(
                tmp_path / "a.npy", tmp_path / "b.npy", rest, rest + 1, scale=1.0, chunk=20, client=client
            )
        assert (tmp_path / "b.npy").read_bytes() == b"from before"
        assert not leftovers(tmp_path, "a.npy", "b.npy")
