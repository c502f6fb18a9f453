"""Pictures and movies as files, what is refused, and what is said where something is missing."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import imageio_ffmpeg
import numpy as np
import pytest
from numpy.typing import NDArray
from subjects import BALL, BOX, BOX_FACES, SMALL, ball_scene, subject

from pointglue import view
from pointglue.errors import InputError, MissingDependencyError
from pointglue.view import render

# Files


def test_save_writes_the_picture_and_nothing_else(tmp_path: Path) -> None:
    scene = ball_scene()
    scene.save(tmp_path / "ball.png")
    np.testing.assert_array_equal(imageio.imread(tmp_path / "ball.png"), scene.image())
    assert [file.name for file in tmp_path.iterdir()] == ["ball.png"]


def test_a_failed_picture_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ball.png"
    path.write_bytes(b"old")
    ball_scene().image()  # starting up writes files of its own

    def half(file: Path, image: NDArray[np.uint8]) -> None:
        Path(file).write_bytes(b"half of a picture")
        raise OSError("No space left on device")

    monkeypatch.setattr(imageio, "imwrite", half)
    with pytest.raises(OSError, match="No space left"):
        ball_scene().save(path)
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["ball.png"]


@pytest.mark.parametrize(("size", "even"), [((96, 54), (96, 54)), ((97, 55), (96, 54))])
def test_movies_read_back(tmp_path: Path, size: tuple[int, int], even: tuple[int, int]) -> None:
    def frames() -> Iterator[view.Picture | NDArray[np.uint8]]:
        for shade in (40, 120, 200):
            yield np.full((size[1], size[0], 3), (shade, 90, 60), dtype=np.uint8)
        scene = view.Picture(size=size)
        scene.mesh(*BALL, color="coral")
        yield scene

    path = tmp_path / "film.mp4"
    view.save_movie(frames(), path, fps=12)
    decode = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    run = subprocess.run(decode, capture_output=True, check=True)
    images = np.frombuffer(run.stdout, np.uint8).reshape(-1, even[1], even[0], 3)
    about = next(line for line in run.stderr.decode().splitlines() if "Video: h264" in line)
    assert "yuv420p(tv, bt709" in about
    assert f"{even[0]}x{even[1]}" in about
    assert "12 fps" in about
    assert len(images) == 4
    for image, shade in zip(images, (40, 120, 200), strict=False):
        np.testing.assert_allclose(image.mean(axis=(0, 1)), (shade, 90, 60), atol=5)
    assert subject(images[3]).any()
    assert [file.name for file in tmp_path.iterdir()] == ["film.mp4"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupted_movie_leaves_the_old_file(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "film.mp4"
    path.write_bytes(b"old")

    def frames() -> Iterator[NDArray[np.uint8]]:
        noise = np.random.default_rng(0)
        for _ in range(1000):  # until the encoder has written something
            yield noise.integers(0, 256, (90, 160, 3), dtype=np.uint8)
            if any(file.stat().st_size > 100 for file in tmp_path.iterdir()):
                raise error

    with pytest.raises(error):
        view.save_movie(frames(), path)
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["film.mp4"]


def test_a_failing_encoder_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = tmp_path / "ffmpeg"
    encoder.write_text("#!/bin/sh\necho the disk is full >&2\nexit 1\n")
    encoder.chmod(0o755)
    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", lambda: str(encoder))
    (tmp_path / "out").mkdir()
    with pytest.raises(OSError, match="the disk is full"):
        view.save_movie([np.zeros((720, 1280, 3), dtype=np.uint8)] * 3, tmp_path / "out" / "film.mp4")
    assert not list((tmp_path / "out").iterdir())


# What is refused, and how

NAN = [[0, 0, 0], [0, float("nan"), 0]]
BAD: list[tuple[Callable[[view.Picture], Any], str]] = [
    (lambda s: s.mesh([[0, 0]], [[0, 0, 0]]), r"vertices must have shape \(n, 3\), got \(1, 2\)"),
    (lambda s: s.mesh([], [[0, 0, 0]]), r"vertices must have shape \(n, 3\), got \(0,\)"),
    (lambda s: s.mesh(np.zeros((0, 3)), [[0, 0, 0]]), "vertices is empty"),
    (lambda s: s.mesh("bunny", [[0, 1, 2]]), "vertices must hold real numbers, got dtype <U5"),
    (lambda s: s.mesh(NAN, [[0, 1, 1]]), r"vertices must be finite, got nan at index \[1, 1\]"),
    (lambda s: s.mesh(BOX, np.zeros((0, 3), dtype=int)), "faces is empty"),
    (lambda s: s.mesh(BOX, [[0, 1, 8]]), "faces must be indices from 0 to 7, got 8"),
    (lambda s: s.mesh(BOX, [[0, 1, -1]]), "faces must be indices from 0 to 7, got -1"),
    (lambda s: s.mesh(BOX, [[0, 1, 2.5]]), "faces must be integers, got 2.5"),
    (lambda s: s.mesh(BOX, [[0, 1, 2, 3]]), r"faces must have shape \(n, 3\), got \(1, 4\)"),
    (lambda s: s.mesh(BOX, BOX_FACES, color="mauve"), "one of coral, teal, .*; got 'mauve'"),
    (lambda s: s.mesh(BOX, BOX_FACES, color="#12345g"), "color must be #rrggbb .* got '#12345g'"),
    (lambda s: s.mesh(BOX, BOX_FACES, color=(1, 2, 0)), r"color must be in \[0, 1\], got 2"),
    (
        lambda s: s.mesh(BOX, BOX_FACES, color=np.zeros((7, 3))),
        r"color must have shape \(8, 3\), got \(7, 3\)",
    ),
    (lambda s: s.mesh(BOX, BOX_FACES, values=np.zeros(7)), r"values must have shape \(8,\), got \(7,\)"),
    (lambda s: s.mesh(BOX, BOX_FACES, values=np.zeros(8), color="red"), "color and values exclude"),
    (
        lambda s: s.mesh(BOX, BOX_FACES, values=np.zeros(8), limits=(1, 1)),
        "limits must be a lower and a higher",
    ),
    (
        lambda s: s.mesh(BOX, BOX_FACES, opacity=0),
        "opacity must be a finite number above 0 and of at most 1, got 0",
    ),
    (
        lambda s: s.mesh(BOX, BOX_FACES, opacity=1.5),
        "opacity must be a finite number above 0 and of at most 1, got 1.5",
    ),
    (lambda s: s.points(NAN), "points must be finite"),
    (lambda s: s.points(BOX, radius=-1), "radius must be a finite number above 0, got -1"),
    (lambda s: s.points(BOX, radius="big"), "radius must be a finite number above 0, got 'big'"),
    (lambda s: s.points(BOX, radius=[1, 2]), r"radius must be a finite number above 0, got \[1, 2\]"),
    (lambda s: s.ellipsoids(BOX, np.ones((7, 3))), r"radii must have shape \(8, 3\), got \(7, 3\)"),
    (lambda s: s.ellipsoids(BOX[:1], [[1, 0, 1]]), "radii must be positive, got 0"),
    (lambda s: s.ellipsoids(BOX[:1], [[1, 1, 1]], np.eye(3)), r"rotations must have shape \(1, 3, 3\)"),
    (
        lambda s: s.ellipsoids(BOX[:1], [[1, 1, 1]], [2 * np.eye(3)]),
        r"rotations must be rotations, but at index \[0\] R R\^T is off by 3",
    ),
    (lambda s: s.lines(BOX[:1]), "points: a line needs at least 2, got 1"),
    (lambda s: s.lines(BOX, segments=[[0, 9]]), "segments must be indices from 0 to 7, got 9"),
    (lambda s: s.arrows(BOX, BOX[:3]), r"vectors must have shape \(8, 3\), got \(3, 3\)"),
    (
        lambda s: s.frame(np.ones((3, 3)), (0, 0, 0), size=1),
        r"rotation must be rotations, but R R\^T is off by 3",
    ),
    (lambda s: s.frame(np.eye(2), (0, 0, 0), size=1), r"rotation must have shape \(3, 3\), got \(2, 2\)"),
    (lambda s: s.frame(np.eye(3), (0, 0), size=1), r"origin must have shape \(3,\), got \(2,\)"),
    (lambda s: s.frame(np.eye(3), (0, 0, 0), size=0), "size must be a finite number above 0, got 0"),
    (lambda s: s.image(), "the picture is empty"),
    (lambda s: view.Picture(size=(8, 8)), r"size must be .* 16 to 8192 pixels, got \(8, 8\)"),
    (lambda s: view.Picture(size=(64.5, 64)), r"size must be .* got \(64.5, 64\)"),
    (lambda s: view.Picture(ground=float("nan")), "ground must be a finite number, got nan"),
    (lambda s: view.Camera(direction=(0, 0, 0)), "direction must not be zero"),
    (lambda s: view.Camera(target=(0, float("inf"), 0)), "target must be finite"),
    (lambda s: view.Camera(distance=-2), "distance must be a finite number above 0, got -2"),
    (lambda s: view.Camera(fov=180), "fov must be a finite number of at least 1 and of at most 120, got 180"),
    (lambda s: view.save_movie([], "film.gif"), "path must end in .mp4, got 'film.gif'"),
    (lambda s: view.save_movie([], "nowhere/film.mp4"), "path: there is no directory 'nowhere'"),
    (lambda s: view.save_movie([], "film.mp4"), "frames is empty"),
    (lambda s: view.save_movie([], "film.mp4", fps=0), "fps must be a finite number above 0, got 0"),
    (lambda s: view.save_movie([3], "film.mp4"), r"frames\[0\] must be a picture or an image, got int"),
    (
        lambda s: view.save_movie([np.zeros((9, 9))], "film.mp4"),
        r"frames\[0\] .* got \(9, 9\) of float64",
    ),
    (lambda s: s.save("ball.jpg"), "path must end in .png, got 'ball.jpg'"),
    (lambda s: s.save("nowhere/ball.png"), "path: there is no directory 'nowhere'"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_bad_input_is_named(
    call: Callable[[view.Picture], Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        call(view.Picture(size=SMALL))
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs a directory that not even root can write to")
def test_unwritable_directories_are_refused_before_anything_is_drawn() -> None:
    with pytest.raises(InputError, match="path: cannot write to '/proc'"):
        view.Picture().save("/proc/ball.png")
    with pytest.raises(InputError, match="path: cannot write to '/proc'"):
        view.save_movie(iter(lambda: 1 / 0, None), "/proc/film.mp4")


def test_frames_of_different_sizes_are_refused(tmp_path: Path) -> None:
    frames = [np.zeros((36, 64, 3), dtype=np.uint8), np.zeros((36, 66, 3), dtype=np.uint8)]
    with pytest.raises(InputError, match="frame 0 is 64x36, frame 1 is 66x36"):
        view.save_movie(frames, tmp_path / "film.mp4")
    assert not list(tmp_path.iterdir())


# What is missing, and how to get it


@pytest.fixture
def _fresh_start() -> Iterator[None]:
    started = render.start_polyscope.__wrapped__
    render.start_polyscope.cache_clear()
    yield
    assert started is render.start_polyscope.__wrapped__
    render.start_polyscope.cache_clear()


@pytest.mark.usefixtures("_fresh_start")
def test_missing_polyscope(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polyscope", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'pointglue\[view\]'"):
        ball_scene().image()


def test_missing_imageio(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "imageio.v3", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'pointglue\[view\]'"):
        ball_scene().save(tmp_path / "ball.png")


def test_missing_ffmpeg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'pointglue\[movie\]'"):
        view.save_movie([ball_scene()], tmp_path / "film.mp4")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="EGL is on Linux")
def test_missing_egl_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    for name in ("libEGL.so", "libEGL.so.1"):
        (tmp_path / name).write_text("not a library")
    code = (
        "from pointglue import view\n"
        "from pointglue.errors import MissingDependencyError\n"
        "scene = view.Picture(); scene.points([[0, 0, 0]])\n"
        "try: scene.image()\n"
        "except MissingDependencyError as error: print(error)"
    )
    environment = {
        key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY")
    }
    environment["LD_LIBRARY_PATH"] = str(tmp_path)
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert "apt-get install libegl1" in run.stdout


def test_paths_and_frames_of_the_wrong_kind():
    scene = view.Picture(size=(32, 32))
    scene.points([[0.0, 0, 0]])
    with pytest.raises(InputError, match="path must be a file name, got NoneType"):
        scene.save(None)
    with pytest.raises(InputError, match="frames must be an iterable of pictures or images, got NoneType"):
        view.save_movie(None, "film.mp4")
