"""Colours that nobody has chosen."""

from pointglue import view
from pointglue.assets import palette


class TestColorsOfObjects:
    def test_come_in_turn(self) -> None:
        codes = [palette.color_code(color) for color in palette.object_colors([None] * 19)]
        assert codes == [list(view.PALETTE.values())[k % 8] for k in range(19)]

    def test_are_not_those_that_others_have_chosen(self) -> None:
        coral, sky = ((232 / 255, 103 / 255, 74 / 255), (107 / 255, 179 / 255, 214 / 255))
        given = [None, coral, None, None, sky, *[None] * 3, (0.5, 0.5, 0.5)]
        found = palette.object_colors(given)
        assert [one for one, own in zip(found, given, strict=True) if own is not None] == [
            coral,
            sky,
            given[-1],
        ]
        assert len(set(found)) == len(found)
        assert palette.color_code(found[2]) != view.PALETTE["coral"]

    def test_are_shared_when_all_are_taken(self) -> None:
        given = [palette.object_colors([None] * 8)[k] for k in (0, 0, 1, 2, 3, 4, 5, 6, 7)]
        (found,) = palette.object_colors([None, *given])[:1]
        assert found == given[2]  # coral has two already
