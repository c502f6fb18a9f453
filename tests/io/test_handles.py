"""The handles file: what it may say, and what is said about it when it is wrong."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from pointglue.errors import InputError
from pointglue.io import read_handles
from pointglue.io.handles import KEYS

REST = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
NOW = [[0.0, 0.0, 0.0], [1.0, 0.5, 0.0]]


@pytest.fixture
def read(tmp_path):
    def read(content=None, **keys):
        path = tmp_path / "handles.json"
        text = content if isinstance(content, str) else json.dumps(keys if content is None else content)
        path.write_text(text)
        return read_handles(path)

    return read


@pytest.fixture
def refused(read, tmp_path):
    """The message about a file, without the name of the file that it begins with."""

    def refused(content=None, **keys):
        with pytest.raises(InputError) as caught:
            read(content, **keys)
        name = f"{tmp_path / 'handles.json'}: "
        assert str(caught.value).startswith(name)
        assert "\n" not in str(caught.value)
        return str(caught.value).removeprefix(name)

    return refused


class TestContent:
    def test_one_pose(self, read):
        handles = read(rest=REST, now=NOW)
        assert np.array_equal(handles.rest, REST)
        assert np.array_equal(handles.frames, [NOW])
        assert not handles.animated
        assert handles.rotations is None
        assert handles.names is None
        assert handles.options == {}

    def test_frames(self, read):
        handles = read(rest=REST, frames=[REST, NOW])
        assert np.array_equal(handles.frames, [REST, NOW])
        assert handles.animated

    def test_one_frame_is_an_animation(self, read):
        handles = read(rest=REST, frames=[NOW])
        assert handles.animated
        assert handles.frames.shape == (1, 2, 3)

    def test_options(self, read):
        given = {"falloff": 2, "stretch": 0.5, "damping": 0.1, "distance": "euclidean", "weights": [1, 2]}
        options = read(rest=REST, now=NOW, radii=0.3, **given).options
        assert np.array_equal(options.pop("weights"), [1.0, 2.0])
        assert options == {
            "falloff": 2.0,
            "stretch": 0.5,
            "damping": 0.1,
            "distance": "euclidean",
            "radii": 0.3,
        }

    def test_quaternions_are_wxyz_of_any_length(self, read):
        """A quarter turn about y takes z to x, and one about z takes x to y."""
        handles = read(rest=REST, now=NOW, radii=1, rotations=[[3, 0, 3, 0], [0.1, 0, 0, 0.1]])
        assert handles.rotations.shape == (1, 2, 3, 3)
        turned = handles.rotations[0] @ np.array([[0, 0, 1.0], [1, 0, 0]])[:, :, None]
        assert np.abs(turned[..., 0] - [[1, 0, 0], [0, 1, 0]]).max() < 1e-15  # a few roundings of 1

    @pytest.mark.parametrize("size", [1e-320, 1e300, -1.0])
    def test_quaternions_of_extreme_length_and_negative_ones(self, read, size):
        rotations = read(rest=REST, now=NOW, rotations=[[size, 0, 0, 0]] * 2).rotations
        assert np.array_equal(rotations, np.broadcast_to(np.eye(3), (1, 2, 3, 3)))

    def test_rotations_are_rotations(self, read, rng):
        rotations = read(rest=REST, now=NOW, rotations=rng.standard_normal((2, 4)).tolist()).rotations
        assert (
            np.abs(rotations @ np.swapaxes(rotations, -1, -2) - np.eye(3)).max() < 1e-14
        )  # sums of products
        assert (np.linalg.det(rotations) > 0).all()

    def test_rotations_by_frames(self, read):
        still, turned = [[1, 0, 0, 0]] * 2, [[0, 1, 0, 0]] * 2
        handles = read(rest=REST, frames=[REST, NOW], radii=1, rotations=[still, turned])
        assert np.array_equal(handles.rotations[0, 0], np.eye(3))
        assert np.array_equal(handles.rotations[1, 1], np.diag([1.0, -1.0, -1.0]))

    def test_a_byte_order_mark_is_no_error(self, read):
        assert len(read("\ufeff" + json.dumps({"rest": REST, "now": NOW})).rest) == 2


class TestErrors:
    def test_missing_file(self, tmp_path):
        with pytest.raises(InputError, match=r"nowhere.json: no such file"):
            read_handles(tmp_path / "nowhere.json")

    def test_folder(self, tmp_path):
        with pytest.raises(InputError, match=r"cannot be read: Is a directory"):
            read_handles(tmp_path)

    def test_not_text(self, tmp_path):
        (tmp_path / "handles.json").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(InputError, match=r"handles.json: is not a text file in UTF-8"):
            read_handles(tmp_path / "handles.json")

    def test_bad_json_has_line_and_column(self, refused):
        assert (
            refused('{"rest": [[0, 0, 0]],\n "now": [[0 0, 0]]}')
            == "line 2, column 13: Expecting ',' delimiter"
        )

    def test_json_beyond_reason(self, refused):
        assert refused("[" * 100_000).startswith("cannot be read: ")
        assert refused('{"rest": ' + "1" * 5000 + "}").startswith("cannot be read: ")

    def test_not_an_object(self, refused):
        assert refused("[1, 2]") == 'must hold an object {"rest": ..., "now": ...}, got [1, 2]'

    def test_key_given_twice(self, refused):
        assert refused('{"rest": [], "now": [], "rest": []}') == 'has the key "rest" twice'

    def test_unknown_key_and_the_nearest(self, refused):
        assert refused(rest=REST, now=NOW, fallof=1) == 'unknown key "fallof": did you mean "falloff"?'
        assert refused(rest=REST, now=NOW, Radius=1) == 'unknown key "Radius": did you mean "radii"?'

    def test_unknown_key_like_no_other(self, refused):
        message = refused(rest=REST, now=NOW, xyzzy=1)
        assert message.startswith('unknown key "xyzzy", not one of rest, now, frames, names, falloff')

    def test_missing_keys(self, refused):
        assert refused(now=NOW).startswith('the key "rest" is missing')
        assert refused(rest=REST).startswith('the key "now" is missing')

    def test_both_now_and_frames(self, refused):
        assert refused(rest=REST, now=NOW, frames=[NOW]).startswith('has both "now" and "frames"')

    @pytest.mark.parametrize(
        ("keys", "message"),
        [
            ({"rest": 3}, "rest must be a list of rows [x, y, z], at least one, got 3"),
            ({"rest": []}, "rest must be a list of rows [x, y, z], at least one, got []"),
            ({"rest": [[0, 0], [1, 0]]}, "rest[0] must be 3 numbers [x, y, z], got [0, 0]"),
            ({"rest": [[0, 0, 0], 5]}, "rest[1] must be 3 numbers [x, y, z], got 5"),
            ({"rest": [[0, 0, "a"], REST[1]]}, 'rest[0] must be 3 numbers [x, y, z], got [0, 0, "a"]'),
            ({"rest": [[0, 0, True], REST[1]]}, "rest[0] must be 3 numbers [x, y, z], got [0, 0, true]"),
            ({"rest": [[0, 0, None], REST[1]]}, "rest[0] must be 3 numbers [x, y, z], got [0, 0, null]"),
            ({"rest": [[0, 0, np.nan], REST[1]]}, "rest[0] must be finite, got [0, 0, NaN]"),
            ({"now": [[0, 0, 0], [0, np.inf, 0]]}, "now[1] must be finite, got [0, Infinity, 0]"),
            (
                {"now": REST[:1]},
                "now must have 2 rows [x, y, z], one for each handle, got 1: [[0.0, 0.0, 0.0]]",
            ),
            ({"names": ["a", 2]}, 'names must be a list of strings, got ["a", 2]'),
            ({"names": ["a"]}, "names must be one for each of 2 handles, got 1"),
            ({"falloff": "2"}, 'falloff must be a number, got "2"'),
            ({"damping": [1]}, "damping must be a number, got [1]"),
            ({"stretch": np.nan}, "stretch must be finite, got nan"),
            ({"weights": [1]}, "weights must be one number, or one for each of 2 handles, got 1"),
            ({"weights": [1, "b"]}, 'weights[1] must be a number, got "b"'),
            ({"radii": {"a": 1}}, 'radii must be a number, got {"a": 1}'),
            ({"radii": [1, np.inf]}, "radii[1] must be finite, got inf"),
            ({"distance": 3}, 'distance must be "inside" or "euclidean", got 3'),
            (
                {"distance": "euclid"},
                'distance must be "inside" or "euclidean", got "euclid": did you mean "euclidean"?',
            ),
            ({"rotations": REST}, "rotations[0] must be 4 numbers [w, x, y, z], got [0.0, 0.0, 0.0]"),
            (
                {"rotations": [[1, 0, 0, 0]]},
                "rotations must have 2 rows [w, x, y, z], one for each handle, got 1: [[1, 0, 0, 0]]",
            ),
            ({"rotations": [[1, 0, 0, 0], [0, 0, 0, 0]]}, "rotations[1] is no rotation: all of it is 0"),
        ],
    )
    def test_wrong_values(self, refused, keys, message):
        assert refused(**{"rest": REST, "now": NOW, **keys}) == message

    @pytest.mark.parametrize(
        ("keys", "message"),
        [
            ({"frames": []}, "frames must be a list of poses, at least one, got []"),
            (
                {"frames": [REST, REST[:1]]},
                "frames[1] must have 2 rows [x, y, z], one for each handle, got 1: [[0.0, 0.0, 0.0]]",
            ),
            (
                {"frames": NOW},
                "frames[0] must have 2 rows [x, y, z], one for each handle, got 3: [0.0, 0.0, 0.0]",
            ),
            ({"frames": [[REST[0], [0, 0]]]}, "frames[0][1] must be 3 numbers [x, y, z], got [0, 0]"),
            (
                {"rotations": [[[1, 0, 0, 0]] * 2] * 2},
                "rotations must be one list for each of 1 frames, got 2",
            ),
            ({"rotations": [[[0, 0, 0, 0]] * 2]}, "rotations[0][0] is no rotation: all of it is 0"),
        ],
    )
    def test_wrong_frames(self, refused, keys, message):
        assert refused(**{"rest": REST, "frames": [NOW], **keys}) == message

    def test_long_values_are_cut(self, refused):
        message = refused(rest=REST, now=[[0, 0, "long " * 100], REST[1]])
        assert len(message) < 120
        assert message.endswith("...")

    def test_handles_are_named(self, refused):
        message = refused(rest=REST, now=[REST[0], [0, 0]], names=["hip", "left foot"])
        assert message == 'now[1] ("left foot") must be 3 numbers [x, y, z], got [0, 0]'


class TestNames:
    @pytest.fixture
    def named(self, read):
        return read(rest=REST, now=NOW, names=["hip", "left foot"]).named

    def test_numbers_get_names(self, named):
        assert (
            named("handle 1 at [1.0, 0.0] sees nothing")
            == 'handle 1 ("left foot") at [1.0, 0.0] sees nothing'
        )
        assert named("handles 0 and 1 coincide") == 'handles 0 ("hip") and 1 ("left foot") coincide'
        assert named("handles [0, 1] cannot") == 'handles [0 ("hip"), 1 ("left foot")] cannot'

    def test_other_numbers_do_not(self, named):
        assert named("one for each of 2 handles, got 1") == "one for each of 2 handles, got 1"

    def test_without_names_nothing_changes(self, read):
        assert read(rest=REST, now=NOW).named("handle 1 is") == "handle 1 is"


def test_the_examples_of_the_documentation(read):
    page = (Path(__file__).parents[2] / "docs" / "reference" / "handles-file.md").read_text()
    one, several = (
        read(text) for text in re.findall(r"^```json\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    )
    assert one.named("handle 1") == 'handle 1 ("left foot")'
    assert several.rotations.shape == (3, 2, 3, 3)
    keys = re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE)
    assert sorted(keys) == sorted(KEYS)
