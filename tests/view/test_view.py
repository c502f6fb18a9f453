"""Pictures, judged by their pixels."""

import colorsys
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from subjects import BALL, BOX, BOX_FACES, SMALL, ball_scene, bounds, hue, subject

from pointglue import view
from pointglue.view import lighting
from pointglue.view import tessellation as shapes

# What a picture shows


DEFAULT, LOW, ABOVE = (0.55, 0.38, 1.0), (-1.0, 0.1, 0.2), (0.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("scale", "offset", "direction"),
    [
        (1e-3, (0.0, 0.0, 0.0), DEFAULT),
        (1e-3, (70.0, -30.0, 900.0), LOW),
        (1.0, (0.0, 0.0, 0.0), LOW),
        (1.0, (70.0, -30.0, 900.0), ABOVE),
        (1e3, (0.0, 0.0, 0.0), ABOVE),
        (1e3, (70.0, -30.0, 900.0), DEFAULT),
    ],
)
def test_subject_fills_the_picture_with_a_margin(
    scale: float, offset: tuple[float, float, float], direction: tuple[float, float, float]
) -> None:
    scene = view.Picture(size=SMALL, camera=view.Camera(direction=direction))
    scene.mesh(scale * (BALL[0] * (1, 1.4, 0.7) + offset), BALL[1], color="coral")
    left, right, top, bottom = bounds(subject(scene.image()))
    assert left > 8
    assert right < 320 - 8
    assert 8 < top < 20
    assert 160 < bottom < 172
    assert abs(left + right - 319) <= 2
    assert abs(top + bottom - 179) <= 2


def test_wide_subjects_are_limited_by_the_width() -> None:
    scene = view.Picture(size=SMALL, camera=view.Camera(direction=(0, 0.2, 1)))
    scene.mesh(BALL[0] * (6, 1, 1), BALL[1], color="coral")
    left, right, _, _ = bounds(subject(scene.image()))
    assert 16 < left < 30
    assert abs(left + right - 319) <= 4


def test_deep_subjects_are_centred_on_the_screen() -> None:
    scene = view.Picture(size=SMALL, camera=view.Camera(direction=(0.3, 0.4, 1), fov=60), ground=False)
    scene.points([[0, 0, 0], [2, 1, -9], [6, 0, -3]], radius=0.5, color="coral")
    left, right, top, bottom = bounds(subject(scene.image()))
    assert abs(left + right - 319) <= 2
    assert abs(top + bottom - 179) <= 2
    assert min(left / 320, top / 180) == pytest.approx(0.07, abs=0.015)  # the margin, where it is tighter


def test_scale_and_place_do_not_change_the_picture() -> None:
    far = view.Picture(size=SMALL)
    far.mesh(1000 * BALL[0] + (4e3, 2e3, -7e3), BALL[1], color="coral")
    difference = abs(far.image().astype(int) - ball_scene().image())
    assert difference.mean() < 0.1


def test_a_held_camera_sees_the_subject_move() -> None:
    first = ball_scene()
    second = view.Picture(size=SMALL, camera=first.fitted_camera())
    right = np.array(first.camera.axes[0])
    second.mesh(BALL[0] + right, BALL[1], color="coral")
    before, after = bounds(subject(first.image())), bounds(subject(second.image()))
    radius = (before[1] - before[0]) / 2
    assert after[0] - before[0] == pytest.approx(radius, rel=0.05)
    assert after[2] == pytest.approx(before[2], abs=2)


@pytest.mark.parametrize("size", [1e300, 1e308, 1e-300, 1e-320])
def test_only_the_way_of_a_direction_matters(size: float) -> None:
    camera = view.Camera(direction=(size, size, -size))
    np.testing.assert_allclose(camera.axes, view.Camera(direction=(1, 1, -1)).axes, atol=1e-12)


def test_target_and_distance_are_kept() -> None:
    camera = view.Camera(target=(1.0, 2.0, 3.0), distance=7.0)
    scene = ball_scene(camera=camera)
    assert scene.fitted_camera() == camera
    aimed = ball_scene(camera=view.Camera(target=(1.0, 0.0, 0.0))).fitted_camera()
    assert aimed.target == (1.0, 0.0, 0.0)
    assert aimed.distance is not None
    assert aimed.distance > (ball_scene().fitted_camera().distance or np.inf)


def test_what_is_below_the_ground_casts_no_shadow_on_it() -> None:
    above, below = (
        lighting.shadow_map(np.array([[0.0, height, 0.0]]), np.ones(1), np.zeros(2)) for height in (0.2, -0.2)
    )
    assert above.min() < 1 - 1e-4
    assert (below == 1).all()


def test_shadows_are_softer_the_higher_what_casts_them() -> None:
    """Wherever it is along z: the shadow of a plate is blurred by its height alone."""
    across = np.linspace(-0.1, 0.1, 60)
    x, z = (each.ravel() for each in np.meshgrid(across, across))
    for place in (-0.4, 0.4):
        steepest = []
        for height in (0.02, 0.4):
            plate = np.stack([x, np.full(len(x), height), z + place], axis=1)
            steepest.append(np.abs(np.diff(lighting.shadow_map(plate, np.ones(len(x)), np.zeros(2)))).max())
        assert steepest[0] > 2 * steepest[1]


def test_ground_is_dark_under_a_ball_and_follows_the_given_height() -> None:
    camera = view.Camera(direction=(0, 0.5, 1), target=(0, 0, 0), distance=8)

    def lightness(ground: bool | float) -> NDArray[np.float64]:
        image = ball_scene(camera=camera, ground=ground).image()
        return np.where(subject(image), np.nan, image.mean(axis=2))

    bare, touching, below = lightness(False), lightness(True), lightness(-1.6)
    assert np.nanmin(bare[:40]) == np.nanmax(bare[140:])  # no ground, no shadow: only the background
    assert np.nanmin(touching) < np.nanmedian(touching) - 60
    assert np.nanmin(touching) < np.nanmin(below) - 10  # the nearer the deeper
    near, far = (bounds(image < np.nanmedian(image) - 12) for image in (touching, below))
    assert far[3] > near[3] + 4  # lower in the picture
    assert far[1] > near[1] + 4  # and further from the light, which comes from the left


def test_ground_hides_what_is_below_it() -> None:
    hidden = ball_scene(ground=1.1, camera=view.Camera(direction=(0, 1, 0.1), target=(0, 0, 0), distance=8))
    assert not subject(hidden.image()).any()


@pytest.mark.parametrize("name", ["coral", "teal", "gold", "blue", "plum", "sage", "sky", "red", "green"])
def test_colors_are_those_asked_for(name: str) -> None:
    scene = view.Picture(size=(96, 96))
    scene.mesh(*BALL, color=name)
    asked = [int(view.PALETTE[name][k : k + 2], 16) / 255 for k in (1, 3, 5)]
    image = scene.image()
    turn = abs(hue(image) - colorsys.rgb_to_hsv(*asked)[0])
    assert min(turn, 1 - turn) < 0.035
    brightest = np.percentile(image[subject(image)], 95, axis=0) / 255
    np.testing.assert_allclose(brightest, asked, atol=0.12)


def test_colors_are_taken_in_turn_and_a_scalar_ramp_runs_from_blue_to_yellow() -> None:
    scene = view.Picture(size=SMALL, camera=view.Camera(direction=(0, 0.3, 1)))
    scene.mesh(*BALL)
    scene.mesh(BALL[0] + (3, 0, 0), BALL[1])
    image = scene.image()
    assert hue(image[:, :160]) == pytest.approx(0.03, abs=0.03)
    assert hue(image[:, 160:]) == pytest.approx(0.48, abs=0.03)
    scene = view.Picture(size=SMALL, camera=view.Camera(direction=(0, 0.3, 1)))
    scene.mesh(*BALL, values=BALL[0][:, 0])
    image = scene.image()
    left, right, _, _ = bounds(subject(image))
    assert hue(image[:, left : left + 15]) == pytest.approx(0.68, abs=0.08)
    assert hue(image[:, right - 15 : right]) == pytest.approx(0.15, abs=0.08)


def test_limits_of_values() -> None:
    scene = view.Picture()
    scene.mesh(*BALL, values=BALL[0][:, 0], limits=(0, 100))
    assert np.ptp(scene.items[0].color[:, 1]) < 0.02
    scene.mesh(*BALL, values=np.zeros(len(BALL[0])))  # all equal is no error
    assert np.ptp(scene.items[1].color, axis=0).max() == 0


ADDERS: list[Callable[[view.Picture], None]] = [
    lambda scene: scene.points([[0, 0, 0], [1, 0, 0]], radius=0.3, color="coral"),
    lambda scene: scene.points([[0, 0, 0], [1, 0, 0]], color=[[1, 0, 0], [1, 0, 0]]),
    lambda scene: scene.points([[5, 6, 7]], color="coral"),
    lambda scene: scene.ellipsoids([[0, 0, 0]], [[1, 2, 0.5]], [np.eye(3)], color="coral"),
    lambda scene: scene.lines([[0, 0, 0], [1, 0, 0], [1, 1, 0]], radius=0.1, color="coral"),
    lambda scene: scene.lines([[2, 2, 2], [2, 2, 2]], radius=0.1, color="coral"),
    lambda scene: scene.lines([[0, 0, 0], [0, 0, 0], [1, 1, 0]], segments=[[0, 1], [1, 2]], color="coral"),
    lambda scene: scene.arrows([[0, 0, 0], [1, 0, 0]], [[0, 2, 0], [0, 0, 0]], radius=0.1, color="coral"),
    lambda scene: scene.frame(np.eye(3), (0, 0, 0), size=2.0),
    lambda scene: scene.mesh(BOX, BOX_FACES, color="coral", edges=True),
    lambda scene: scene.mesh(BOX, BOX_FACES, color="coral", opacity=0.5),
    lambda scene: scene.mesh(BOX, BOX_FACES, color=np.tile([1.0, 0.3, 0.2], (8, 1))),
]


@pytest.mark.parametrize("add", ADDERS)
def test_everything_shows_in_the_middle_of_the_picture(add: Callable[[view.Picture], None]) -> None:
    scene = view.Picture(size=SMALL)
    add(scene)
    mask = subject(scene.image())
    left, right, top, bottom = bounds(mask)
    assert mask.sum() > 10
    assert left > 4
    assert right < 316
    assert top > 4
    assert bottom < 176
    assert abs(left + right - 319) < 32
    assert abs(top + bottom - 179) < 32


def test_opacity_lets_the_back_shine_through() -> None:
    def middle(opacity: float) -> NDArray[np.float64]:
        scene = view.Picture(size=SMALL, camera=view.Camera(direction=(0, 0, 1)), ground=False)
        scene.mesh(*BALL, color="sky", opacity=opacity)
        scene.points([[0, 0, 0]], radius=0.4, color="red")
        return np.asarray(scene.image()[85:95, 155:165].mean(axis=(0, 1)))

    solid, clear = middle(1.0), middle(0.3)
    assert solid[2] > solid[0] + 30
    assert clear[0] > clear[2] + 30


def test_silhouettes_are_antialiased() -> None:
    scene = view.Picture(size=SMALL, ground=False, camera=view.Camera(direction=(0, 0, 1)))
    scene.mesh([[0, 0, 0], [1, 0.05, 0], [0.5, 1, 0]], [[0, 1, 2]], color="graphite")
    grey = scene.image().astype(int).sum(axis=2)
    between = (grey > grey.min() + 60) & (grey < grey.max() - 60)
    assert between.sum() > 100  # a hard edge has no shades in between


def test_folds_are_darker_than_open_surfaces() -> None:
    scene = view.Picture(size=SMALL, ground=False, camera=view.Camera(direction=(0, 0, 1)))
    for side in (-1, 1):
        scene.mesh(BALL[0] + (side, 0, 0), BALL[1], color="coral")
    image = scene.image()
    left, right, _, _ = bounds(subject(image))
    # The same place on either ball, but on the right one it is where they touch.
    free, fold = image[90, left + 6, 0], image[90, (left + right) // 2 + 6, 0]
    assert int(fold) < int(free) - 25


def test_boxes_keep_their_edges_and_balls_stay_smooth() -> None:
    old, faces = lighting.split_creases(BOX, BOX_FACES)
    assert len(old) == 24
    np.testing.assert_array_equal(BOX[old][faces], BOX[BOX_FACES])
    assert len(lighting.split_creases(*BALL)[0]) == len(BALL[0])
    loose = BALL[0][BALL[1]].reshape(-1, 3)  # every triangle on its own, as a file with seams may have it
    assert len(lighting.split_creases(loose, np.arange(len(loose)).reshape(-1, 3))[0]) == len(BALL[0])


def test_a_mesh_inside_out_looks_the_same() -> None:
    scene = view.Picture(size=SMALL)
    scene.mesh(BALL[0], BALL[1][:, ::-1], color="coral")
    assert abs(scene.image().astype(int) - ball_scene().image()).mean() < 0.5


def test_arrows_are_as_long_as_their_vectors() -> None:
    vectors = np.array([[0, 0, 3.0], [0.001, 0, 0], [-2, 1, 5]])
    vertices, faces = shapes.arrows(np.ones((3, 3)), vectors, 0.1)
    for arrow, vector in zip(vertices.reshape(3, -1, 3), vectors, strict=True):
        along = (arrow - 1) @ vector / (vector @ vector)
        assert along.min() == pytest.approx(0, abs=1e-12)
        assert along.max() == pytest.approx(1, abs=1e-12)
        across = np.linalg.norm(arrow - 1 - along[:, None] * vector, axis=1)
        assert across.max() <= min(0.26, np.linalg.norm(vector)) + 1e-12
    normals = lighting.face_normals(vertices, faces)
    assert (np.linalg.norm(normals, axis=1) > 0).all()
    volumes = np.einsum("ij,ij->i", normals, vertices[faces[:, 0]] - 1).reshape(3, -1).sum(axis=1)
    assert (volumes > 0).all()  # the faces look outwards


def test_ellipsoids_are_ellipsoids() -> None:
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0]
    radii = np.array([0.2, 1.0, 3.0])
    scene = view.Picture()
    scene.ellipsoids([[1, 2, 3]], [radii], [turn])
    local = (scene.items[0].points - (1, 2, 3)) @ turn / radii
    np.testing.assert_allclose(np.linalg.norm(local, axis=1), 1, rtol=1e-12)


def test_samples_leave_no_gap() -> None:
    corners = np.array([[0, 0, 0], [1, 0, 0], [0.1, 0.7, 0], [0, 0, 5], [4, 0, 5], [4, 0.01, 5]], dtype=float)
    points = lighting.surface_samples(corners, np.array([[0, 1, 2], [3, 4, 5]]), 0.05)
    rng = np.random.default_rng(0)
    weights = rng.dirichlet([1, 1, 1], 300)
    for triangle in (corners[:3], corners[3:]):
        gaps = np.linalg.norm((weights @ triangle)[:, None] - points, axis=2).min(axis=1)
        assert gaps.max() < 0.05
    assert (points[:, 2] == 5).sum() < 300  # a sliver is not sampled as if it were a square


# Equal scenes, equal pictures


def test_pictures_repeat_whatever_was_drawn_between() -> None:
    scene = ball_scene()
    first = scene.image()
    other = view.Picture(size=(200, 120), ground=False, camera=view.Camera(fov=60))
    other.mesh(BOX, BOX_FACES, edges=True, opacity=0.4)
    other.points(BOX)
    other.image()
    np.testing.assert_array_equal(scene.image(), first)
    np.testing.assert_array_equal(ball_scene().image(), first)


def test_scenes_keep_copies() -> None:
    vertices = BALL[0].copy()
    scene = view.Picture(size=SMALL)
    scene.mesh(vertices, BALL[1], color="coral")
    vertices *= 5
    np.testing.assert_array_equal(scene.image(), ball_scene().image())


def test_nothing_is_left_in_polyscope() -> None:
    import polyscope

    ball_scene().image()
    for has in (polyscope.has_surface_mesh, polyscope.has_point_cloud, polyscope.has_curve_network):
        assert not has("0")
    assert not polyscope.has_surface_mesh("ground")


def test_importing_is_cheap_and_drawing_is_silent() -> None:
    code = (
        "import sys; from pointglue import view\n"
        "heavy = {'polyscope', 'imageio', 'imageio_ffmpeg'} & set(sys.modules)\n"
        "scene = view.Picture(size=(64, 64)); scene.points([[0, 0, 0]]); scene.image()\n"
        "print(sorted(heavy))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stderr == ""
    assert run.stdout.strip().splitlines()[-1] == "[]"
    assert len(run.stdout.strip().splitlines()) == 1


def test_a_film_takes_no_more_memory_as_it_goes() -> None:
    import resource

    scene = view.Picture(size=(64, 36))
    scene.mesh(*BALL)
    scene.points(BALL[0])
    for _ in range(2):
        scene.image()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(12):
        scene.image()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # kilobytes
