"""Soft bodies in cages weigh what is inside their mesh, and stand on the mesh that is seen."""

import numpy as np
import pytest

from pointglue.scene import build_scene, load_scene

RADIUS, DISTANCE = 0.1, 1e-3
BALL = {"mesh": {"shape": "sphere", "radius": RADIUS, "detail": 2}, "transform": {"translate": [0, 0.103, 0]}}
FLESH = BALL | {"kind": "flesh", "material": {"young": "0.5 MPa", "density": 1000}}
JELLY = BALL | {"kind": "jelly", "material": {"young": "50 kPa", "density": 1000}}
FLOOR = {"kind": "collider", "mesh": {"shape": "plane"}}


def stood(body, frames=12, **contact):
    """The simulation of a body on the floor, and its mesh after half a second."""
    scene = {"objects": {"body": body, "floor": FLOOR}, "contact": {"distance": DISTANCE} | contact}
    simulation = build_scene(load_scene(scene))
    state = simulation.start()
    for _ in range(frames):
        state = simulation.advance(state)
    return simulation, simulation.frame(state).points["body"]


@pytest.mark.parametrize("body", [FLESH, JELLY], ids=["flesh", "jelly"])
@pytest.mark.parametrize("cell", [0.08, 1.0])
def test_a_ball_rests_on_its_mesh(body, cell):
    """However coarse its cells are: contact pushes within its distance, and the mesh is what it pushes."""
    simulation, mesh = stood(body | {"cell": cell})
    assert 0 < mesh[:, 1].min() < 1.01 * DISTANCE
    assert mesh[:, 1].max() > 1.8 * RADIUS
    # The volume of the mesh, which lines through its cells measure to a few percent.
    summary = next(each for each in simulation.objects if each.name == "body")
    assert summary.mass == pytest.approx(1000 * 4 / 3 * np.pi * RADIUS**3, rel=0.06)


def test_a_mesh_of_many_triangles_rests_on_what_is_outermost():
    """It is met without details smaller than a third of a cell, or of a thirtieth of its size."""
    fine = FLESH | {"mesh": {"shape": "sphere", "radius": RADIUS, "detail": 5}, "cell": 0.1}
    fine["transform"] = {"translate": [0, 0.1005, 0]}
    simulation, mesh = stood(fine, frames=2, ignore=[["body", "body"]])
    skin = next(body for body in simulation.engines[0].solver.model.bodies if body.name == "body/mesh")
    assert len(skin.positions) < 0.4 * len(mesh)
    # Chords of a fifteenth of the radius are 1/1800 of the radius below the arc.
    assert -RADIUS / 1800 < mesh[:, 1].min() < DISTANCE


def test_glue_of_cages_holds_where_their_meshes_cross():
    """Two bodies that are glued by the points of their cages do not push each other's meshes apart."""
    upper = FLESH | {"cell": 0.1, "transform": {"translate": [0, 0.29, 0]}}
    scene = {
        "world": {"gravity": [0, 0, 0]},
        "objects": {"lower": FLESH | {"cell": 0.1}, "upper": upper},
        "attach": [{"kind": "glue", "from": "upper", "to": "lower", "points": {"nearest": 6}}],
        "contact": {"distance": DISTANCE},
    }
    simulation = build_scene(load_scene(scene))
    state = simulation.advance(simulation.start())
    before, after = (simulation.frame(each).points["upper"] for each in (simulation.start(), state))
    assert np.abs(after - before).max() < 1e-6


def test_a_mesh_finer_than_contact_reaches_does_not_meet_itself():
    """Else it would push itself apart; others meet it all the same."""
    with pytest.warns(UserWarning, match=r"does not meet itself: many edges of its mesh are 0\.0\d+ m long"):
        simulation, mesh = stood(
            FLESH | {"cell": 0.1, "transform": {"translate": [0, 0.3, 0]}}, 1, distance=0.05
        )
    assert np.ptp(mesh[:, 1]) == pytest.approx(2 * RADIUS, rel=0.05)
    summary = next(each for each in simulation.objects if each.name == "body")
    assert summary.meets == ("floor",)
