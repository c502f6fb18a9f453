"""Pictures, movie and contact sheet of a run on disk."""

import re
import subprocess
import sys

import imageio.v3 as imageio
import numpy as np
import pytest
from imageio_ffmpeg import get_ffmpeg_exe
from small_runs import write_run

from pointglue import view
from pointglue.cli import main
from pointglue.errors import InputError, MissingDependencyError, PointglueError
from pointglue.io import Frame, FrameStore, StoredObject
from pointglue.view import runs

SIZE = (160, 96)
TRIANGLE = np.array([[0, 0, 0], [0.2, 0, 0], [0.1, 0.2, 0.0]])
RED, BLUE = (0.85, 0.1, 0.1), (0.1, 0.2, 0.85)


def flight(directory, *, floor=0.0, frames=5):
    """A red triangle goes a metre to the right and a blue one a metre up; there may be a floor."""
    corners = floor * np.array([[-1, 0, -1], [-1, 0, 1], [1, 0, 1], [1, 0, -1.0]])
    still = StoredObject(name="floor", rest=corners, faces=[[0, 1, 2], [0, 2, 3]], motion="still")
    objects = [
        StoredObject(name="red", rest=TRIANGLE, faces=[[0, 1, 2]], color=RED),
        StoredObject(name="blue", rest=TRIANGLE, faces=[[0, 1, 2]], color=BLUE, motion="transform"),
    ] + [still] * (floor > 0)
    with FrameStore.create(directory, objects, rate=10) as store:
        for k in range(frames):
            up = np.eye(4)
            up[:2, 3] = -0.4, k / (frames - 1)
            points = TRIANGLE + [k / (frames - 1), 0, 0]
            store.add(Frame(number=k + 1, time=k / 10, points={"red": points}, transforms={"blue": up}))
    return store


def camera_of_run(store):
    """The camera that sees all frames, and the height of the lowest point."""
    return runs._held(store, store.numbers(), view.Camera(), SIZE)


def test_pictures_movie_and_contact_sheet(tmp_path):
    write_run(tmp_path, range(1, 4))
    calls = []
    done = view.render_run(tmp_path, size=SIZE, progress=lambda *counts: calls.append(counts))
    assert [path.name for path in done.pictures] == ["frame_0001.png", "frame_0002.png", "frame_0003.png"]
    assert done.pictures[0].parent == tmp_path / "pictures"
    assert calls == [(1, 3), (2, 3), (3, 3)]
    for path in done.pictures:
        assert imageio.imread(path).shape == (96, 160, 3)
    decode = [get_ffmpeg_exe(), "-i", str(done.movie), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    film = np.frombuffer(subprocess.run(decode, capture_output=True, check=True).stdout, np.uint8)
    film = film.reshape(3, 96, 160, 3).astype(int)
    for picture, path in zip(film, done.pictures, strict=True):
        assert abs(picture - imageio.imread(path)).mean() < 3  # a film is compressed
    sheet = imageio.imread(done.sheet)
    assert sheet.shape[1] > 3 * 400  # three thumbnails beside each other
    assert not list(tmp_path.rglob("*.png.*"))


def test_a_movie_of_one_frame_in_two_takes_as_long(tmp_path, monkeypatch):
    rates = []
    monkeypatch.setattr(
        "pointglue.view.runs.save_movie", lambda images, path, fps: rates.append((len([*images]), fps))
    )
    write_run(tmp_path, range(1, 5))
    for every in (1, 2):
        view.render_run(tmp_path, size=SIZE, every=every)
    rate = FrameStore.open(tmp_path).rate
    assert rates == [(4, rate), (2, rate / 2)]


def test_one_in_two_without_a_movie_and_old_pictures_go(tmp_path):
    flight(tmp_path / "run")
    out = tmp_path / "out" / "here"
    out.mkdir(parents=True)
    (out / "frame_0099.png").touch()
    (out / "mine.png").touch()
    done = view.render_run(tmp_path / "run", out, size=SIZE, every=2, movie=False)
    assert done.movie is None
    assert sorted(path.name for path in out.iterdir()) == [
        "contact_sheet.png", "frame_0001.png", "frame_0003.png", "frame_0005.png", "mine.png",
    ]  # fmt: skip


@pytest.mark.parametrize("options", [[], ["--no-movie"]])
def test_the_command_makes_a_movie_unless_told_otherwise(options, tmp_path, command):
    write_run(tmp_path, [1, 2])
    code, printed, _ = command("render", tmp_path, "--size", "160x96", *options)
    assert code == 0
    made = {"contact_sheet.png", "frame_0001.png", "frame_0002.png"} | (set() if options else {"movie.mp4"})
    assert {path.name for path in (tmp_path / "pictures").iterdir()} == made
    assert ("movie.mp4" in printed) == (not options)


def mask(image, color):
    """Where a picture is rather of this colour than grey."""
    r, _, b = (image[..., k].astype(int) for k in range(3))
    return r - b > 60 if color == RED else b - r > 60


def test_objects_have_their_colors_and_stay_in_the_picture(tmp_path):
    flight(tmp_path)
    done = view.render_run(tmp_path, size=SIZE, movie=False, camera=view.Camera(direction=(0, 0, 1)))
    places = {}
    for color in (RED, BLUE):
        masks = [mask(imageio.imread(path), color) for path in done.pictures]
        for one in masks:
            assert one.any()
            assert not np.concatenate([one[0], one[-1], one[:, 0], one[:, -1]]).any()
        places[color] = np.array([np.argwhere(one).mean(axis=0) for one in masks])
    # The camera holds still: each goes its way, as far each time.
    rows, columns = np.diff(places[RED], axis=0).T
    assert columns == pytest.approx(columns.mean(), rel=0.1)
    assert columns.mean() > 8
    assert abs(rows).max() < 1
    assert (np.diff(places[BLUE][:, 0]) < -8).all()
    # And the action fills the picture: of its height, all but the margins.
    both = np.any([mask(imageio.imread(path), c) for path in done.pictures for c in (RED, BLUE)], axis=0)
    assert np.ptp(np.flatnonzero(both.any(axis=1))) > 0.75 * SIZE[1]


@pytest.mark.parametrize("floor", [0.0, 0.5, 1000.0])
def test_the_camera_does_not_mind_a_large_floor(tmp_path, floor):
    store = flight(tmp_path, floor=floor)
    camera, lowest = runs.run_camera(store, store.numbers(), view.Camera(), SIZE)
    assert 2 < camera.distance < 8
    assert lowest == 0


def test_the_camera_sees_every_point_of_every_frame(tmp_path, rng):
    rest = rng.standard_normal((500, 3))
    with FrameStore.create(tmp_path, [StoredObject(name="cloud", rest=rest, radius=0.1)], rate=24) as store:
        for k in range(4):
            store.add(Frame(number=k, time=0.0, points={"cloud": rest * [1, 1 + k, 1] + [2 * k, 0, 0]}))
    camera, _ = runs.run_camera(store, store.numbers(), view.Camera(), SIZE)
    points = np.concatenate([frame.points["cloud"] for frame in store])
    x, y, depth = ((points - camera.target) @ camera.axes.T).T
    edge = np.tan(np.radians(camera.fov / 2)) * (camera.distance - depth)
    assert (abs(y) + 0.1 < edge).all()
    assert (abs(x) + 0.1 < edge * SIZE[0] / SIZE[1]).all()
    closer = 0.75 * edge  # it is no farther away than it must
    assert (abs(y) > closer).any() or (abs(x) > closer * SIZE[0] / SIZE[1]).any()


class TestContactSheet:
    def test_pictures_and_labels_are_where_they_belong(self):
        images = [np.full((50, 100, 3), value, np.uint8) for value in (0, 60, 120)]
        sheet = view.contact_sheet(images, ["a", "", "xxxxxxxx"], columns=2, width=100)
        height = 50 + 20 + 30
        assert sheet.shape == (2 * height + 10, 2 * 110 + 10, 3)
        for k, value in enumerate((0, 60, 120)):
            y, x = 10 + k // 2 * height, 10 + k % 2 * 110
            assert (sheet[y : y + 50, x : x + 100] == value).all()
        labels = [sheet[60:height, 0:115], sheet[60:height, 115:], sheet[height + 60 :, 10:110]]
        dark = [(label.min(axis=2) < 120).sum() for label in labels]
        assert dark[0] > 5
        assert dark[1] == 0
        assert dark[2] > 5 * dark[0]
        assert (sheet[height + 60 :, 115:].min(axis=2) > 120).all()

    def test_long_labels_are_told_apart_by_their_ends(self):
        """They take several lines, of words and of parts of words, and stay below their pictures."""
        image = np.zeros((50, 100, 3), np.uint8)
        for label in ("first=1, second=2, third=", "x" * 60):
            one, other = (view.contact_sheet([image] * 2, [label + end, ""], width=100) for end in "78")
            assert one.shape == other.shape
            assert (one != other).any()
            assert (one[60:, 115:].min(axis=2) > 120).all()
            lines = (one[60:, :115].min(axis=2) < 120).any(1)
            assert np.count_nonzero(np.diff(lines.astype(int)) == 1) >= 2  # with paper between them

    def test_pictures_of_different_heights_stand_on_a_line(self):
        images = [np.zeros((100, 100, 3), np.uint8), np.zeros((20, 40, 3), np.uint8)]
        sheet = view.contact_sheet(images, ["", ""], width=100)
        assert (sheet[60:110, 120:220] == 0).all()
        assert (sheet[10:60, 120:220] > 100).all()

    def test_what_is_wrong(self):
        image = np.zeros((9, 9, 3), np.uint8)
        with pytest.raises(InputError, match="images and labels must be as many, got 1 and 2"):
            view.contact_sheet([image], ["a", "b"])
        with pytest.raises(InputError, match="images and labels must be as many, got 0 and 0"):
            view.contact_sheet([], [])
        with pytest.raises(InputError, match="columns must be a whole number of at least 1, got 0"):
            view.contact_sheet([image], ["a"], columns=0)


@pytest.mark.parametrize("movie", [False, True])
def test_a_small_disk_runs_full(small_disk, tmp_path, movie):
    flight(tmp_path / "run")
    (small_disk / "filler").write_bytes(bytes(960_000))
    with pytest.raises(PointglueError, match=r"disk/out: cannot be written: .*No space left on device"):
        view.render_run(tmp_path / "run", small_disk / "out", size=(320, 180), movie=movie)
    assert (small_disk / "out" / "frame_0001.png").exists()
    for path in (small_disk / "out").iterdir():
        assert path.suffix == ".png"
        assert imageio.imread(path).shape == (180, 320, 3)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--size", "0x0", r"size must be a width and a height of 16 to 8192 pixels, got \(0, 0\)"),
        ("--size", "64x0", r"size must be a width and a height of 16 to 8192 pixels, got \(64, 0\)"),
        ("--size", "nanx64", "--size must be 2 whole numbers with 'x' between them, got 'nanx64'"),
        ("--size", "64.5x64", "--size must be 2 whole numbers with 'x' between them, got '64.5x64'"),
        ("--from", "0,0,0", "--from must not be zero: say where the camera is, such as 0,0,1, got '0,0,0'"),
        ("--from", "nan,0,0", "--from must be 3 finite numbers with ',' between them, got 'nan,0,0'"),
        ("--from", "1e999,0,0", "--from must be 3 finite numbers with ',' between them"),
    ],
)
def test_options_that_cannot_be(tmp_path, monkeypatch, capsys, option, value, message):
    write_run(tmp_path, [1])
    monkeypatch.setattr(sys, "argv", ["pointglue", "render", str(tmp_path), "--no-movie", option, value])
    with pytest.raises(SystemExit):
        main()
    assert re.match(f"pointglue: {message}", capsys.readouterr().err)
    assert not (tmp_path / "pictures").exists()


def test_sizes_of_last_pictures(tmp_path):
    write_run(tmp_path, [1])
    with pytest.raises(InputError, match="size must be a width and a height of 16 to 8192 pixels"):
        view.last_pictures([tmp_path], size=(64, 0))


def test_what_is_wrong(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="nowhere: no such folder"):
        view.render_run(tmp_path / "nowhere", movie=False)
    write_run(tmp_path / "empty", [])
    with pytest.raises(InputError, match="empty: has no frames to draw"):
        view.render_run(tmp_path / "empty", movie=False)
    with pytest.raises(InputError, match="every must be a whole number of at least 1, got 0"):
        view.render_run(tmp_path / "empty", every=0)
    write_run(tmp_path / "run", [1])
    (tmp_path / "file").touch()
    with pytest.raises(PointglueError, match="file: cannot be written: File exists"):
        view.render_run(tmp_path / "run", tmp_path / "file", movie=False)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(MissingDependencyError, match=r"movies need ffmpeg: pip install 'pointglue\[movie\]'"):
        view.render_run(tmp_path / "run")
    assert not (tmp_path / "run" / "pictures").exists()
