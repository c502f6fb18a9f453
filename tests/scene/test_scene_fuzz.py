"""Scene files that have been meddled with give frames or a SceneError, never anything else."""

import random
import re
import warnings

import pytest
from small_scenes import ALL

from pointglue.errors import PointglueWarning, SceneError
from pointglue.scene import run_scene

VALUES = ["0", "-1", "1e9", "1e-9", "nan", "inf", "3.5", "1000000", "true", '""', '"1 mm"', '"2 kg"',
          '"frame 2"', "[]", "[1, 2, 3]", "{}", "{ a = 1 }", "1979-05-27", "'\\u0000'", "'é'"]  # fmt: skip
WORDS = re.compile(r"[A-Za-z_]{3,}")
NUMBERS = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


def mutated(text, rng):
    """The text with one to three things wrong."""
    for _ in range(rng.randint(1, 3)):
        lines = text.splitlines()
        k = rng.randrange(len(lines))
        match rng.randrange(9):
            case 0:
                del lines[k]
            case 1:
                lines.insert(k, lines[rng.randrange(len(lines))])
            case 2:
                lines[k] = lines[k][: rng.randrange(len(lines[k]) + 1)]
            case 3:
                j = rng.randrange(len(lines[k]) + 1)
                lines[k] = (
                    lines[k][:j] + chr(rng.choice([0, 9, 34, 39, 91, 93, 123, 233, 0x1F600])) + lines[k][j:]
                )
            case 4 | 5:
                lines[k] = NUMBERS.sub(lambda found: rng.choice([*VALUES, found[0]]), lines[k])
            case 6 if "=" in lines[k]:
                lines[k] = lines[k].split("=")[0] + "= " + rng.choice(VALUES)
            case 7:
                word = rng.choice(WORDS.findall(text))
                lines[k] = WORDS.sub(lambda found: word if rng.random() < 0.5 else found[0], lines[k])  # noqa: B023
            case _:
                j = rng.randrange(len(lines))
                lines[j], lines[k] = lines[k], lines[j]
        text = "\n".join(lines) or "\n"
    return text


@pytest.mark.parametrize("name", ALL)
@pytest.mark.filterwarnings("default")
def test_no_file_makes_it_stumble(name, tmp_path):
    rng, outcomes = random.Random(name), {"frames": 0, "refused": 0}
    for number in range(70):
        file = tmp_path / f"{number}.toml"
        file.write_text(mutated(ALL[name], rng), encoding="utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PointglueWarning)
            told = ""
            try:
                with run_scene(file, tmp_path / str(number)) as run:
                    drawn = [frame.number for _, frame in zip(range(2), run, strict=False)]
            except SceneError as error:
                told, drawn = str(error), []
        assert bool(told.strip()) != bool(drawn)
        outcomes["frames" if drawn else "refused"] += 1
    assert min(outcomes.values()) >= 3, outcomes
