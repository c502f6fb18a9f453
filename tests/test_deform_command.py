"""``pointglue deform``: a mesh, a file of handles, and what comes out."""

import json
import os
import re
import signal
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import trimesh
from trimesh.visual import TextureVisuals
from waiting import COMPILING, DEADLINE, wait_until

from pointglue import cli
from pointglue.console import warnings_in_a_line
from pointglue.deform import HandleDeformer
from pointglue.geometry.shapes import box
from pointglue.io import read_mesh


def horseshoe():
    """A bar bent until its ends are near each other, but not inside."""
    vertices, faces = box((0.4, 5.0, 0.4), (2, 30, 2))
    x, y, z = vertices.T
    bent = np.column_stack([(1 + x) * np.cos(y), (1 + x) * np.sin(y), z])
    return bent.round(6), faces  # the same when written and read


VERTICES, FACES = horseshoe()
# The ends and the middle.
REST = np.column_stack([np.cos([-2.2, 2.2, 0.0]), np.sin([-2.2, 2.2, 0.0]), np.zeros(3)])
NOW = REST + [[0.0, 0.0, 0.0], [0.4, 0.1, 0.1], [0.1, 0.0, 0.2]]
CLOSE = 5e-7  # of 2, by 32 bits
WROTE = re.compile(r"wrote (.*) \((?:([\d,]+) frames?, )?([\d,]+) vertices, (\d+) handles?, [\d.]+ s\)\n")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Work in a folder of our own, and leave the user's cache alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POINTGLUE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(Path(cli.__file__).parents[1]), prepend=os.pathsep)
    return tmp_path


@pytest.fixture
def mesh():
    trimesh.Trimesh(VERTICES, FACES, process=False).export("in.off")
    return "in.off"


def handles(name="handles.json", **keys):
    keys = {"rest": REST.tolist(), "now": NOW.tolist(), **keys}
    if "frames" in keys:
        del keys["now"]
    with open(name, "w") as file:
        json.dump({key: np.asarray(value).tolist() for key, value in keys.items()}, file)
    return name


@pytest.fixture
def run(command):
    """Run the command; (exit code, standard output, standard error)."""
    return partial(command, "deform")


@pytest.fixture
def done(run):
    """Run the command and expect that it works, without a word of warning; what it prints."""

    def done(*arguments):
        code, out, err = run(*arguments)
        assert (code, err) == (0, "")
        return out

    return done


@pytest.fixture
def refused(run):
    """Run the command and expect that it refuses, in a line; what it says."""

    def refused(*arguments):
        code, out, err = run(*arguments)
        assert (code, out) == (1, "")
        assert err.startswith("pointglue: ")
        assert err.count("\n") == 1
        return err.removeprefix("pointglue: ").rstrip()

    return refused


class TestOnePose:
    @pytest.mark.parametrize("kind", ["ply", "obj", "off", "glb", "gltf"])
    def test_the_mesh_is_deformed(self, done, mesh, folder, kind):
        out = done(mesh, handles(), "-o", f"out.{kind}")
        assert WROTE.fullmatch(out).groups() == (f"out.{kind}", None, str(len(VERTICES)), "3")
        written = read_mesh(f"out.{kind}")
        expected = HandleDeformer((VERTICES, FACES), REST).deform(NOW)
        assert np.abs(written.vertices - expected).max() < CLOSE
        assert np.array_equal(written.faces, FACES)
        assert np.abs(expected - VERTICES).max() > 0.1

    def test_stl_has_no_holes_afterwards(self, done):
        """Its triangles share no vertices, but places: the distances inside are those of the surface."""
        trimesh.Trimesh(VERTICES, FACES, process=False).export("in.stl")
        done("in.stl", handles(), "-o", "out.stl")
        written = read_mesh("out.stl")
        expected = HandleDeformer((VERTICES, FACES), REST).deform(NOW)
        assert np.abs(written.vertices[written.faces] - expected[FACES]).max() < CLOSE

    def test_a_vertex_on_a_handle_goes_along(self, done, mesh):
        k = int(np.argmax(VERTICES @ [1, 1, 1]))
        done(mesh, handles(rest=[VERTICES[k], REST[0]], now=[[3, 3, 3], REST[0]]), "-o", "out.npy")
        assert np.abs(np.load("out.npy")[0, k] - 3).max() < 1e-15  # exactly, but for a rounding of 3

    def test_thousands_are_readable(self, done):
        vertices, faces = box((1, 1, 1), (15, 15, 15))
        trimesh.Trimesh(vertices, faces, process=False).export("in.off")
        assert "(1,352 vertices, 1 handle, " in done(
            "in.off", handles(rest=[[0, 0, 0]], now=[[1, 0, 0]]), "-o", "o.ply"
        )

    def test_quiet(self, done, mesh):
        assert done(mesh, handles(), "-o", "out.ply", "--quiet") == ""

    def test_folders_are_made(self, done, mesh, folder):
        done(mesh, handles(), "-o", "a/b/out.ply")
        assert [path.name for path in (folder / "a" / "b").iterdir()] == ["out.ply"]

    def test_an_array_of_one_frame(self, done, mesh):
        done(mesh, handles(), "-o", "out.npz")
        with np.load("out.npz") as arrays:
            assert arrays["vertices"].shape == (1, len(VERTICES), 3)
            assert np.array_equal(arrays["faces"], FACES)

    def test_normals_are_turned_and_colors_stay(self, done, rng):
        """All handles turn about z by a quarter, and so does everything."""
        colors = rng.integers(0, 256, (len(VERTICES), 3)).astype(np.uint8)
        shape = trimesh.Trimesh(VERTICES, FACES, vertex_colors=colors, process=False)
        normals = rng.standard_normal(VERTICES.shape)
        shape.vertex_normals = normals / np.linalg.norm(normals, axis=1, keepdims=True)
        shape.export("in.ply")
        turn = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
        done("in.ply", handles(rest=np.eye(3), now=np.eye(3) @ turn.T), "-o", "out.ply")
        (part,) = read_mesh("out.ply").parts
        assert np.abs(part.vertices - VERTICES @ turn.T).max() < CLOSE
        assert np.abs(part.normals - shape.vertex_normals @ turn.T).max() < CLOSE
        assert np.array_equal(part.colors[:, :3], colors)

    def test_texture_coordinates_stay(self, done, rng):
        uv = rng.random((len(VERTICES), 2))
        trimesh.Trimesh(VERTICES, FACES, visual=TextureVisuals(uv=uv), process=False).export("in.obj")
        done("in.obj", handles(), "-o", "out.glb")
        assert np.abs(read_mesh("out.glb").parts[0].uv - uv).max() < CLOSE


class TestSettings:
    @pytest.mark.parametrize(
        "settings",
        [
            {"falloff": 2.0},
            {"stretch": 0.5},
            {"damping": 0.3},
            {"distance": "euclidean"},
            {"weights": [1.0, 2.0, 5.0]},
            {"radii": 0.2},
            {"radii": [0.1, 0.2, 0.3], "rotations": [[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 1, 1]]},
        ],
        ids="+".join,
    )
    def test_of_the_file(self, run, mesh, settings):
        code, _, err = run(mesh, handles(**settings), "-o", "out.npy")
        # Handles that are turned as far as these fold the mesh.
        assert (code, err == "") == (0, "rotations" not in settings)
        settings = dict(settings)
        turned = settings.pop("rotations", None)
        if turned is not None:  # about x by a half, and x to y to z
            turned = np.array([np.eye(3), np.diag([1, -1, -1]), np.roll(np.eye(3), 1, axis=0)])
        deformer = HandleDeformer((VERTICES, FACES), REST, **settings)
        expected = deformer.at(NOW, rotations=turned).positions
        assert np.abs(np.load("out.npy")[0] - expected).max() < 1e-12  # rotations are rounded
        assert np.abs(expected - HandleDeformer((VERTICES, FACES), REST).deform(NOW)).max() > 1e-3

    @pytest.mark.parametrize(
        ("key", "wrong", "value"),
        [
            ("falloff", 3.0, 2.0),
            ("stretch", 1.0, 0.5),
            ("damping", 5.0, 0.3),
            ("distance", "inside", "euclidean"),
        ],
    )
    def test_of_the_command_go_first(self, done, mesh, key, wrong, value):
        done(mesh, handles(**{key: wrong}), "-o", "out.npy", f"--{key}", value)
        expected = HandleDeformer((VERTICES, FACES), REST, **{key: value}).at(NOW).positions
        assert np.array_equal(np.load("out.npy")[0], expected)


class TestAnimation:
    FRAMES = np.array([REST + (NOW - REST) * k / 3 for k in range(4)])

    def expected(self, **settings):
        deformer, pose = HandleDeformer((VERTICES, FACES), REST, **settings), None
        for q in self.FRAMES:
            pose = deformer.at(q, previous=None if pose is None else pose.rotations)
            yield pose.positions

    def test_files_are_numbered(self, done, mesh, folder):
        out = done(mesh, handles(frames=self.FRAMES), "-o", "anim/out.ply")
        assert WROTE.fullmatch(out).groups()[:2] == ("anim/out_0001.ply to out_0004.ply", "4")
        assert sorted(path.name for path in (folder / "anim").iterdir()) == [
            f"out_000{k}.ply" for k in range(1, 5)
        ]
        for k, expected in enumerate(self.expected(), start=1):
            assert np.abs(read_mesh(f"anim/out_000{k}.ply").vertices - expected).max() < CLOSE

    def test_damping_follows_the_frame_before(self, done, mesh):
        done(mesh, handles(frames=self.FRAMES, damping=2.0), "-o", "out.npy")
        positions = np.load("out.npy")
        assert np.array_equal(positions, list(self.expected(damping=2.0)))
        alone = HandleDeformer((VERTICES, FACES), REST, damping=2.0).deform(self.FRAMES[-1])
        assert np.abs(positions[-1] - alone).max() > 1e-3

    def test_rotations_of_each_frame(self, run, mesh):
        half = [[0, 1, 0, 0]] * 3
        frames, rotations = [REST, REST], [[[1, 0, 0, 0]] * 3, half]
        code, _, err = run(mesh, handles(frames=frames, rotations=rotations, radii=0.5), "-o", "out.npz")
        deformer = HandleDeformer((VERTICES, FACES), REST, radii=0.5)
        folds = len(deformer.at(REST, rotations=np.tile(np.diag([1.0, -1, -1]), (3, 1, 1))).flipped)
        told = f"pointglue: warning: {folds} triangles of {len(FACES)} turned over in frame 2"
        assert (code, err.startswith(told)) == (0, True)
        with np.load("out.npz") as arrays:
            assert np.abs(arrays["vertices"][0] - VERTICES).max() < 1e-12
            turned = deformer.deform(REST, rotations=np.tile(np.diag([1.0, -1, -1]), (3, 1, 1)))
            assert np.abs(arrays["vertices"][1] - turned).max() < 1e-12

    def test_one_frame(self, done, mesh):
        assert "wrote out_0001.ply (1 frame, " in done(mesh, handles(frames=[NOW]), "-o", "out.ply")


class TestCache:
    def distances(self, folder):
        return len(list(folder.glob("*.npy")))

    def test_in_the_folder_of_the_environment(self, done, mesh, folder):
        done(mesh, handles(), "-o", "out.ply")
        assert self.distances(folder / "cache") == 3

    def test_of_the_system(self, done, mesh, folder, monkeypatch):
        monkeypatch.delenv("POINTGLUE_CACHE")
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "xdg"))
        done(mesh, handles(), "-o", "out.ply")
        assert self.distances(folder / "xdg" / "pointglue") == 3

    def test_at_home(self, done, mesh, folder, monkeypatch):
        monkeypatch.delenv("POINTGLUE_CACHE")
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setenv("HOME", str(folder / "home"))
        done(mesh, handles(), "-o", "out.ply")
        assert self.distances(folder / "home" / ".cache" / "pointglue") == 3

    def test_where_the_option_says(self, done, mesh, folder):
        done(mesh, handles(), "-o", "out.ply", "--cache", "here")
        assert self.distances(folder / "here") == 3
        assert not (folder / "cache").exists()

    def test_none(self, done, mesh, folder):
        done(mesh, handles(), "-o", "out.ply", "--no-cache")
        assert not (folder / "cache").exists()

    def test_is_used(self, done, mesh, folder):
        """Distances that are wrong in the cache are wrong in the mesh."""
        done(mesh, handles(), "-o", "first.npy")
        for path in (folder / "cache").glob("*.npy"):
            *distances, unreached = np.load(path)
            np.save(path, np.array([*(d + 1 for d in distances[::-1]), unreached]))
        done(mesh, handles(), "-o", "second.npy")
        assert np.abs(np.load("first.npy") - np.load("second.npy")).max() > 0.01

    def test_spares_what_takes_longest_to_load(self, done, folder):
        """With the distances known, a mesh of triangles alone needs neither trimesh nor SciPy's graphs."""
        trimesh.Trimesh(VERTICES, FACES, process=False).export("in.obj")
        done("in.obj", handles(), "-o", "out.obj")
        code = "import sys; from pointglue.cli import main\ntry: main()\nexcept SystemExit: pass\n"
        code += "print({'trimesh', 'scipy.sparse', 'scipy.spatial'} & set(sys.modules))"
        command = [sys.executable, "-c", code, "deform", "in.obj", "handles.json", "-o", "out.obj"]
        ended = subprocess.run(command, capture_output=True, text=True, check=True)
        assert ended.stdout.splitlines()[-1] == "set()"

    def test_a_cache_that_cannot_be_is_no_reason_to_stop(self, done, mesh, folder, monkeypatch):
        (folder / "file").touch()
        monkeypatch.setenv("POINTGLUE_CACHE", str(folder / "file" / "cache"))
        done(mesh, handles(), "-o", "out.ply")

    def test_unless_it_was_asked_for(self, refused, mesh, folder):
        (folder / "file").touch()
        message = refused(mesh, handles(), "-o", "out.ply", "--cache", "file/cache")
        assert message.startswith("cache file/cache cannot be written: ")
        assert message.endswith(". Choose another folder with --cache, or --no-cache")
        assert not (folder / "out.ply").exists()

    def test_not_both(self, refused, mesh):
        message = refused(mesh, handles(), "-o", "out.ply", "--cache", "here", "--no-cache")
        assert message == "--cache and --no-cache exclude each other"


class TestWarnings:
    @pytest.fixture
    def two(self):
        shapes = [trimesh.Trimesh(VERTICES + [x, 0, 0], FACES, process=False) for x in (0, 5)]
        trimesh.Scene(shapes).export("two.glb")
        return "two.glb"

    def test_are_a_line(self, run, two):
        code, out, err = run(two, handles(names=["foot", "head", "back"]), "-o", "out.ply")
        assert code == 0
        assert out.startswith("wrote out.ply")
        assert err.startswith("pointglue: warning: handles [")
        assert '1 ("head")' in err
        assert "] cannot reach all parts of the mesh" in err
        assert err.count("\n") == 1

    def test_are_not_silenced_by_quiet(self, run, two):
        code, out, err = run(two, handles(), "-o", "out.ply", "--quiet")
        assert (code, out) == (0, "")
        assert "cannot reach all parts" in err

    def test_leave_the_settings_of_python_alone(self, run, two):
        before = warnings.showwarning, list(warnings.filters)
        run(two, handles(), "-o", "out.ply")
        assert before == (warnings.showwarning, list(warnings.filters))

    def test_of_others_are_shown_as_ever(self):
        with pytest.warns(UserWarning, match="of others"), warnings_in_a_line(str):
            warnings.warn("of others", UserWarning, stacklevel=1)

    def test_about_missing_materials(self, run):
        with open("in.obj", "w") as file:
            file.write("mtllib no.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
        code, _, err = run("in.obj", handles(), "-o", "out.obj")
        assert code == 0
        assert err == "pointglue: warning: in.obj: there is no no.mtl: its materials are lost\n"

    def test_parts_of_a_scene_stay_parts(self, run, two):
        run(two, handles(), "-o", "out.glb")
        assert len(read_mesh("out.glb").parts) == 2
        assert np.abs(read_mesh("out.glb").vertices).max() > 4


class TestErrors:
    def test_no_mesh(self, refused):
        assert refused("no.ply", handles(), "-o", "out.ply") == "no.ply: no such file"

    def test_no_handles(self, refused, mesh):
        assert refused(mesh, "no.json", "-o", "out.ply") == "no.json: no such file"

    def test_bad_json(self, refused, mesh):
        with open("bad.json", "w") as file:
            file.write('{"rest": [[0, 0, 0]],\n')
        message = refused(mesh, "bad.json", "-o", "out.ply")
        assert message == "bad.json: line 2, column 1: Expecting property name enclosed in double quotes"

    def test_unknown_key(self, refused, mesh):
        message = refused(mesh, handles(fallof=1), "-o", "out.ply")
        assert message == 'handles.json: unknown key "fallof": did you mean "falloff"?'

    def test_not_a_mesh(self, refused, folder):
        (folder / "in.ply").write_text("hello")
        assert (
            refused("in.ply", handles(), "-o", "out.ply") == "in.ply: cannot be read as .ply: Not a ply file!"
        )

    def test_unknown_ending(self, refused, mesh):
        message = refused(mesh, handles(), "-o", "out.fbx")
        assert message == "out.fbx: must end in .glb, .gltf, .obj, .off, .ply, .stl, .npy or .npz, not '.fbx'"

    def test_nowhere_to_write(self, refused, mesh, folder):
        (folder / "file").touch()
        message = refused(mesh, handles(), "-o", "file/out.ply")
        assert message.startswith("file/out.ply: cannot be written: ")

    @pytest.mark.parametrize(
        ("keys", "message"),
        [
            ({"falloff": -1}, "falloff must be a finite number above 0, got -1.0"),
            ({"stretch": 2}, "stretch must be a finite number of at least 0 and of at most 1, got 2.0"),
            ({"damping": -1}, "damping must be a finite number of at least 0, got -1.0"),
            ({"weights": 0}, "weights must be positive, got 0.0"),
            ({"radii": [1, 2, -3]}, "radii must not be negative, got -3.0"),
            ({"rotations": [[1, 0, 0, 0]] * 3}, "rotations are for handles with radii, and none has one"),
        ],
    )
    def test_settings_of_the_file(self, refused, mesh, keys, message):
        assert refused(mesh, handles(**keys), "-o", "out.ply") == f"handles.json: {message}"

    def test_settings_of_the_command(self, refused, mesh):
        message = refused(mesh, handles(falloff=1), "-o", "out.ply", "--falloff=-1")
        assert message == "--falloff must be a finite number above 0, got -1.0"

    def test_handles_are_named(self, refused, mesh):
        names = ["foot", "head", "hand"]
        message = refused(mesh, handles(rest=[REST[0], REST[1], REST[0]], names=names), "-o", "out.ply")
        assert message.startswith('handles.json: handles 0 ("foot") and 2 ("hand") coincide at [')
        message = refused(
            mesh, handles(rest=REST + [[0, 0, 0], [0, 0, 1e6], [0, 0, 0]], names=names), "-o", "out.ply"
        )
        assert message.startswith('handles.json: handle 1 ("head") at [')
        assert message.endswith("times the shape's size away from it")

    def test_nothing_is_left_behind(self, refused, mesh, folder):
        (folder / "out.ply").write_text("earlier")
        refused(mesh, handles(weights=0), "-o", "out.ply")
        assert sorted(path.name for path in folder.iterdir()) == ["handles.json", "in.off", "out.ply"]
        assert (folder / "out.ply").read_text() == "earlier"

    def test_usage(self, run, mesh):
        code, _, err = run(mesh, handles())
        assert code == 2
        assert "--output" in err
        code, _, err = run(mesh, handles(), "-o", "out.ply", "--distance", "short")
        assert code == 2
        assert "'inside'" in err


class TestProcess:
    """As users start it."""

    def command(self, *arguments):
        return [sys.executable, "-m", "pointglue", "deform", *arguments]

    def test_it_works(self, mesh):
        process = subprocess.run(
            self.command(mesh, handles(), "-o", "out.ply"), capture_output=True, text=True, check=True
        )
        assert WROTE.fullmatch(process.stdout)
        assert process.stderr.replace(COMPILING, "") == ""

    def test_it_is_listed(self):
        process = subprocess.run(
            [sys.executable, "-m", "pointglue", "--help"], capture_output=True, text=True, check=True
        )
        assert "deform" in process.stdout

    @pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
    def test_progress_is_shown_on_a_terminal_only(self, mesh):
        import pty

        name = handles(frames=[REST, NOW])
        outer, inner = pty.openpty()
        command = self.command(mesh, name, "-o", "out.ply")
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=inner) as process:
            os.close(inner)
            shown = b""
            try:
                while part := os.read(outer, 10_000):
                    shown += part
            except OSError:  # the other side has been closed
                pass
            assert process.wait() == 0
        os.close(outer)
        assert b"frames" in shown
        assert b"100%" in shown

    def test_an_interruption_in_a_finaliser_is_not_lost(self, run, mesh, folder, monkeypatch):
        """Python prints what a finaliser raises and goes on, and so did the command, to the last frame."""

        class Interrupting:
            def __del__(self):
                signal.raise_signal(signal.SIGINT)

        rename, written = os.replace, []

        def interrupted(source, target, **options):
            rename(source, target, **options)
            if Path(target).parent.name == "anim":
                written.append(target)
                if len(written) == 3:
                    Interrupting()

        monkeypatch.setattr(os, "replace", interrupted)
        code, out, err = run(mesh, handles(frames=np.repeat([REST, NOW], 10, axis=0)), "-o", "anim/out.ply")
        assert code == 128 + signal.SIGINT
        assert out == ""
        assert "stopped before all was written" in err
        assert len(list((folder / "anim").iterdir())) == 3

    @pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
    def test_an_interruption_leaves_whole_files(self, mesh, folder):
        name = handles(frames=np.repeat([REST, NOW], 5000, axis=0))
        command = self.command(mesh, name, "-o", "anim/out.ply")
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            anim = folder / "anim"
            written = lambda: sorted(anim.glob("out_*")) if anim.exists() else []  # noqa: E731
            wait_until(lambda: len(written()) >= 20 or process.poll() is not None, written)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=DEADLINE)
        assert process.returncode not in (0, None)
        assert out == ""
        assert "Traceback" not in err
        files = sorted((folder / "anim").iterdir())
        assert 20 <= len(files) < 10_000
        size = files[0].stat().st_size
        for path in files:
            assert path.name.startswith("out_")
            assert path.stat().st_size == size
        read_mesh(files[-1])
