"""Numbers that are measured again are compared with published intervals, and a stopped measurement continues."""

import pytest

from benchmarks.reproduce import __main__ as reproduce
from benchmarks.reproduce.numbers import Published, Store, Value


# Half an interval is 1. The mean of 5 further runs may differ by the square root of 2, and a single run by sqrt(6).
@pytest.mark.parametrize(
    ("value", "count", "verdict"),
    [
        (-26.0, 5, "inside"),
        (-26.41, 5, "inside, for 5 new runs"),
        (-26.42, 5, "OUTSIDE"),
        (-27.44, 1, "inside, for 1 new run"),
    ],
)
def test_a_new_number_is_compared_with_the_interval_of_as_many_runs(value, count, verdict):
    assert Published(-25.0, -26.0, -24.0, samples=5).verdict(value, count) == verdict


def test_values_that_are_stored_are_not_planned_again(tmp_path, capsys):
    Store(tmp_path / "values.jsonl").put(Value(cell="random team", values={}, seconds=3.0, commit=None))
    assert reproduce.main(["--only", "random team", "speed/*", "--plan", "--folder", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("4 of 5 cells to measure: about ")
