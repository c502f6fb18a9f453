"""The registry of models: what it says of each is what the builders, the scene format and the docs say."""

from pathlib import Path

import numpy as np
import pytest

from pointglue.assets import ASSETS
from pointglue.scene import load_scene
from pointglue.scene.schema.shapes import MODELS

# Of models that have parameters without a default
NEEDED = {
    "button": {"radius": 0.01},
    "truck": {"part": "rear wheels"},
    "leaves": {"spine": [[0, 0, 0], [0, 1, 0], [1, 1, 0]], "radius": 0.1},
}


def parameters(asset):
    """Return the parameters of a model, with defaults where there are any."""
    given = {one.name: one.default for one in asset.parameters}
    return given | NEEDED.get(asset.name, {})


@pytest.mark.parametrize("name", ASSETS)
def test_a_model_is_built_from_its_parameters(name):
    asset = ASSETS[name]
    assert asset.name == name
    vertices, faces = asset.build(**parameters(asset))
    assert vertices.shape[1:] == faces.shape[1:] == (3,)
    assert np.isfinite(vertices).all()
    assert np.array_equal(np.unique(faces), np.arange(len(vertices)))


@pytest.mark.parametrize("name", ASSETS)
def test_the_scene_format_has_its_parameters(name):
    asset = ASSETS[name]
    fields = MODELS[name].model_fields
    assert list(fields) == ["shape", *(one.name for one in asset.parameters)]
    needed = {one.name for one in asset.parameters if one.default is None}
    assert needed == NEEDED.get(name, {}).keys()
    assert {key for key, field in fields.items() if field.is_required()} == {"shape", *needed}
    table = {"kind": "follower", "on": "a", "mesh": {"shape": name, **NEEDED.get(name, {})}}
    loaded = load_scene({"objects": {"a": table}}).tables.objects["a"].mesh
    assert loaded.asset is asset
    assert set(loaded.parameters) == set(parameters(asset))


def test_groups_have_the_names_that_they_are_known_by():
    asset = ASSETS["shirt"]
    found = [name for part in ("shirt", "pocket") for name in asset.groups(part=part, detail=2)]
    assert found == list(asset.group_names)
    assert not any(one.group_names for one in ASSETS.values() if one.groups is None)


def test_a_model_that_moves_starts_as_it_is_built():
    moving = {name: asset for name, asset in ASSETS.items() if asset.motion is not None}
    assert list(moving) == ["torso"]
    for asset in moving.values():
        vertices, _ = asset.build(**parameters(asset))
        assert np.allclose(asset.motion(**parameters(asset))(0.0), vertices, atol=1e-12)


def test_what_the_studio_offers_needs_no_parameter():
    assert not {name for name, asset in ASSETS.items() if asset.in_studio} & NEEDED.keys()


def test_the_guide_names_every_model():
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "write-scenes.md").read_text()
    line = text[text.index("A `mesh` is a file, or a shape") :].split("\n\n")[0]
    assert not [name for name in ASSETS if name not in line.replace(",", " ").replace(".", " ").split()]
