"""Whatever a page sends, it is done or refused with a message, and a refused command changes nothing."""

import pytest
from fuzzing import play_sequence

SEQUENCES, CHUNK = 2000, 100


@pytest.mark.parametrize("first", range(0, SEQUENCES, CHUNK))
def test_random_commands_are_done_or_refused(seeds, tmp_path, first):
    for number in range(first, first + CHUNK):
        play_sequence(seeds, tmp_path / str(number), number)
