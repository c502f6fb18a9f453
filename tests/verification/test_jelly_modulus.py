"""The modulus of shape matching: that of a stretched bar, at any number and size of clusters."""

import warnings

import numpy as np
import pytest
from scipy.sparse.linalg import spsolve

from pointglue.elastic import ShapeMatchingEnergy
from pointglue.errors import InputError, PointglueWarning
from pointglue.geometry.simplices import tet_box
from pointglue.scene import load_scene
from pointglue.scene.build.builder import build_scene

YOUNG = 2e4


def bar(size, cells, **options):
    """A bar of shape matching in cubes, of equal masses."""
    points, tets = tet_box(size, cells)
    cubes = [np.unique(cube) for cube in tets.reshape(-1, 24)]
    volume = np.prod(size) / len(cubes)
    energy = ShapeMatchingEnergy.from_young(points, 1.0, YOUNG, clusters=cubes, volumes=volume, **options)
    return points, energy


@pytest.mark.parametrize("blend", [0.0, 0.3, 0.7, 0.9])
@pytest.mark.parametrize(
    ("size", "cells"),
    [
        ((0.4, 0.1, 0.1), (4, 1, 1)),
        ((0.4, 0.1, 0.1), (8, 2, 2)),
        ((0.4, 0.1, 0.1), (16, 4, 4)),
        ((4.0, 1.0, 2.0), (8, 2, 4)),
        ((4e-3, 1e-3, 1e-3), (12, 3, 3)),
    ],
)
def test_a_stretched_bar_has_its_modulus(size, cells, blend):
    """Uniformly stretched by any factor, it pulls on its ends with E A (stretch - 1), and is in balance."""
    points, energy = bar(size, cells, blend=blend)
    for stretch in (0.8, 1.001, 1.3):
        f = energy.gradient(points * [stretch, 1, 1])
        end = points[:, 0] > 0.499 * size[0]
        force = YOUNG * size[1] * size[2] * (stretch - 1)
        assert f[end, 0].sum() == pytest.approx(force, rel=1e-9)
        between = np.abs(points[:, 0]) < 0.499 * size[0]
        np.testing.assert_allclose(f[between], 0, atol=1e-9 * abs(force))
        # Its energy is that of the volume: E / 2 strain^2.
        stored = YOUNG / 2 * (stretch - 1) ** 2 * np.prod(size)
        assert energy.value(points * [stretch, 1, 1]) == pytest.approx(stored, rel=1e-9)


def test_a_sheared_block_has_half_the_modulus():
    """Poisson's ratio is 0: the shear modulus is E / 2."""
    points, energy = bar((1.0, 1.0, 1.0), (3, 3, 3))
    shear = 1e-6
    moved = points + shear * points[:, [1]] * [1.0, 0, 0]
    # Quadratic in the shear but for terms of third order, and offsets of 1e-6 that are known to 1e-16.
    assert energy.value(moved) == pytest.approx(YOUNG / 4 * shear**2, rel=1e-4)


def test_cubes_that_are_partly_filled_are_as_stiff_as_their_volume(rng):
    """Each cube of a cage stands for what of it is inside of the mesh, however its neighbours are filled."""
    points, tets = tet_box((0.4, 0.2, 0.2), (8, 4, 4))
    cubes = [np.unique(cube) for cube in tets.reshape(-1, 24)]
    volumes = 0.05**3 * rng.uniform(0.05, 1.0, len(cubes))
    energy = ShapeMatchingEnergy.from_young(points, 1.0, YOUNG, clusters=cubes, volumes=volumes, blend=0.2)
    stored = YOUNG / 2 * 0.1**2 * volumes.sum()
    for axis in range(3):
        stretch = np.ones(3)
        stretch[axis] = 1.1
        assert energy.value(points * stretch) == pytest.approx(stored, rel=1e-9)


def test_in_the_plane():
    side, cells = 0.05, 6
    x = np.stack(np.meshgrid(*[np.arange(cells + 1) * side] * 2, indexing="ij"), -1).reshape(-1, 2)
    number = np.arange((cells + 1) ** 2).reshape(cells + 1, cells + 1)
    squares = np.stack([number[:-1, :-1], number[1:, :-1], number[:-1, 1:], number[1:, 1:]], -1).reshape(
        -1, 4
    )
    energy = ShapeMatchingEnergy.from_young(x, 1.0, YOUNG, clusters=list(squares), volumes=side**2, blend=0.5)
    stored = YOUNG / 2 * 0.1**2 * (cells * side) ** 2
    assert energy.value(x * [1.1, 1.0]) == pytest.approx(stored, rel=1e-9)


@pytest.mark.parametrize(("thick", "blend"), [(1, 0.0), (2, 0.0), (4, 0.0), (2, 0.5), (4, 0.5)])
def test_bending_is_stiffer_within_a_cube_as_the_documentation_says(thick, blend):
    """A cantilever bends like one whose modulus is larger by (3 / (1 - blend)^2 - 1) / thick^2."""
    length, side = 1.6, 0.1
    points, energy = bar((length, side, side), (16 * thick, thick, thick), blend=blend)
    clamped = points[:, 0] < -0.499 * length
    end = points[:, 0] > 0.499 * length
    free = np.repeat(~clamped, 3)
    load = np.zeros_like(points)
    load[end, 1] = -1.0 / end.sum()
    H = energy.hessian(points).tocsc()[free][:, free]
    sag = -spsolve(H, load.ravel()[free]).reshape(-1, 3)[end[~clamped], 1].mean()
    stiffness = 1 + (3 / (1 - blend) ** 2 - 1) / thick**2
    beam = length**3 / (3 * stiffness * YOUNG * side**4 / 12)
    # Shear adds (side / length)^2 / 2 to the sag, and the clamped end is held across as well.
    assert sag == pytest.approx(beam, rel=0.03)


def test_arguments_are_named():
    points, tets = tet_box((1, 1, 1), (1, 1, 1))
    cubes = [np.unique(tets)]
    for options, message in (
        ({"blend": 1.0}, "blend must be less than 1: clusters that may take any shape have no modulus"),
        ({"volumes": [1.0, 2.0]}, "volumes must be one number or 1"),
        ({"volumes": 0.0}, "volumes must be positive, got 0"),
        ({"young": -1.0}, "young must be"),
    ):
        given = {"young": YOUNG, "clusters": cubes, "volumes": 1.0} | options
        with pytest.raises(InputError, match=message):
            ShapeMatchingEnergy.from_young(points, 1.0, **given)


def scene_of(cell, **material):
    mesh = {"shape": "box", "size": [0.2, 0.2, 0.2]}
    jelly = {"kind": "jelly", "mesh": mesh, "cell": cell, "material": {"density": 500, **material}}
    return {"objects": {"jelly": jelly}}


@pytest.mark.parametrize("cell", [0.1, 0.05, 0.025])
def test_a_jelly_of_a_scene_carries_its_weight_at_any_size_of_cells(cell):
    """A block on a floor, on rollers, sinks by rho g h^2 / (2 E): the stress grows linearly to its foot."""
    simulation = build_scene(load_scene(scene_of(cell, young="20 kPa")))
    body = simulation.engines[0].solver.model.bodies[0]
    energy, x = body.energies[0], np.array(body.positions)
    foot = x[:, 1] < x[:, 1].min() + 1e-9
    held = np.zeros((len(x), 3), bool)
    held[foot, 1] = held[0] = True
    load = -9.81 * body.mass[:, None] * [0.0, 1.0, 0.0]
    rest = x.copy()
    for _ in range(6):  # Newton's method to the balance
        free = ~held.ravel()
        H = energy.hessian(x).tocsc()[free][:, free]
        step = spsolve(H, (load - energy.gradient(x)).ravel()[free])
        x.reshape(-1)[free] += step
    top = rest[:, 1] > rest[:, 1].max() - 1e-9
    sinks, height = (rest - x)[top, 1].mean(), np.ptp(rest[:, 1])
    assert sinks == pytest.approx(500 * 9.81 * height**2 / (2 * 2e4), rel=0.02)


def test_what_cannot_carry_its_own_weight_is_told_with_the_figure():
    def told(scene):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always", PointglueWarning)
            build_scene(load_scene(scene))
        return [str(warning.message) for warning in found if "its own weight" in str(warning.message)]

    assert told(scene_of(0.05, young="20 kPa")) == []
    (text,) = told(scene_of(0.05, young="1 kPa"))
    # rho g h = 981 Pa, and so 0.2 m * 0.981 / 2 deep; 981 / 0.3 Pa would carry it.
    assert "objects.jelly.material.young is too little for its own weight" in text
    assert "sinks by about 9.8 cm of its 20 cm: raise it to 3300 Pa or more" in text
    assert told(scene_of(0.05, young="1 kPa") | {"world": {"gravity": [0, 0, 0]}}) == []
    flesh = scene_of(0.05, young="1 kPa", poisson=0.3)
    flesh["objects"]["jelly"]["kind"] = "flesh"
    assert len(told(flesh)) == 1


def test_the_old_stiffness_is_refused_with_what_to_write_instead():
    with pytest.raises(Exception, match=r"has a stiffness in N/m.*give young in Pa instead, 2 \(1 - blend\)"):
        load_scene(scene_of(0.05, stiffness=80.0))
