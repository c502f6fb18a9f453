"""How benchmarks measure and report; the benchmarks themselves are run by hand."""

import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def racing(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import _racing

    return _racing


def test_a_race_calls_both_in_turn_and_counts_items(racing):
    called = []
    row = racing.race(
        "work", "peer", 10, called.append, lambda: called.append("peer"), 5, prepare=lambda: "ours"
    )
    assert called == ["ours", "peer"] * 6
    assert row.ratio == row.theirs / row.ours


def test_an_iteration_is_the_difference_of_long_and_short_steps(racing):
    assert racing.iteration_time(lambda count: 3.0 + 0.25 * count, (1, 5), 2) == pytest.approx(0.25)


@pytest.mark.parametrize("markdown", [True, False])
def test_rows_are_written_as_json(racing, tmp_path, monkeypatch, capsys, markdown):
    rows = [racing.Row("fit", 1e-7, "SciPy", 4e-7), racing.Row("alone", 0.5)]

    class Suite:
        measure = staticmethod(lambda quick: racing.Results("suite", rows, ["a note"], "SciPy 1"))

    monkeypatch.setitem(sys.modules, "suite", Suite)
    racing.run_suites(["suite", "suite"], markdown=markdown, output=tmp_path / "rows.json")
    found = json.loads((tmp_path / "rows.json").read_text())
    assert found[:2] == found[2:]
    assert found[0] == {
        "suite": "suite",
        "work": "fit",
        "pointglue_seconds": 1e-7,
        "peer": "SciPy",
        "peer_seconds": 4e-7,
        "ratio": pytest.approx(4.0),
    }
    assert [found[1][key] for key in ("pointglue_seconds", "peer", "peer_seconds", "ratio")] == [
        0.5,
        None,
        None,
        None,
    ]
    printed = capsys.readouterr().out
    assert "4x" in printed
    assert "a note" in printed


def test_the_table_of_timings_keeps_what_is_not_measured_again(racing, tmp_path):
    def row(suite, work, seconds, peer=None):
        return {
            "suite": suite,
            "work": work,
            "pointglue_seconds": seconds,
            "peer": peer,
            "peer_seconds": peer and 1.0,
            "ratio": peer and 1.0,
        }

    old = [row("a", "x", 1.0, "VBD"), row("a", "x", 2.0), row("a", "z", 6.0), row("b", "x", 3.0)]
    path = tmp_path / "timings.json"
    path.write_text(json.dumps({"machine": "one", "rows": old, "notes": {"a": ["näher"]}}))
    racing.write_rows([row("a", "x", 0.5), row("a", "y", 4.0), row("c", "x", 5.0)], path)
    assert json.loads(path.read_text(encoding="utf-8")) == {
        "machine": "one",
        "rows": [old[0], row("a", "x", 0.5), row("a", "y", 4.0), *old[2:], row("c", "x", 5.0)],
        "notes": {"a": ["näher"]},
    }


def test_every_benchmark_is_one_of_all(racing):
    files = {path.stem for path in BENCHMARKS.glob("[a-z]*.py")}
    assert files == {*racing.SUITES, "collisions", "drops", "jitter", "solids"}


def test_tables_that_a_benchmark_has_besides_are_printed_and_written(racing, capsys):
    other = racing.Results("suite", [racing.Row("race", 1.0, "peer", 3.0)], ["another note"])
    results = racing.Results("suite", [racing.Row("alone", 0.5)], further=[other])
    racing.report(results, markdown=True)
    printed = capsys.readouterr().out
    assert "alone" in printed
    assert "another note" in printed
    assert [row["work"] for row in racing.json_rows(results)] == ["alone", "race"]


def test_the_fair_setting_of_a_peer_is_the_quickest_that_is_as_right(racing):
    import _contact_race

    def outcome(seconds, error):
        return _contact_race.Outcome("", seconds, error, "")

    ours, quick, slow, slower = outcome(1.0, 0.05), outcome(1.0, 0.1), outcome(4.0, 0.04), outcome(9.0, 0.01)
    assert _contact_race.fair([quick, slower, slow], ours) is slow
    assert (
        _contact_race.fair([quick, outcome(3.0, 0.2)], ours) is quick
    )  # none is: the one that is most right
