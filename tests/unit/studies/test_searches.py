"""The settings that a search tries."""

import math
from argparse import Namespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marless.backends.badge import driver_badge
from marless.backends.dial_in import DriverOptions
from marless.cli import dial_in_arguments as dial_in
from marless.coordinator.config.schema import ConfigError
from marless.studies.searches import Range, searcher, space
from marless.studies.study import Study
from marless.studies.study_file import Search, StudyFile
from marless.studies.train_study import demand

VARY = {"algorithm": {"lr": {"low": 1e-5, "high": 1e-2, "log": True}, "epochs": {"low": 1, "high": 4}}, "seed": [1, 2]}


def asked(search, count):
    return [search.ask() for _ in range(count)]


def test_grid_is_every_combination_in_file_order():
    grid = searcher(space({"a": {"x": [1, 2]}, "b": ["u", "v"]}), Search())
    assert asked(grid, 5) == [
        {"a.x": 1, "b": "u"},
        {"a.x": 1, "b": "v"},
        {"a.x": 2, "b": "u"},
        {"a.x": 2, "b": "v"},
        None,
    ]


@given(st.integers(-50, 50), st.integers(1, 50), st.floats(0, 1))
def test_whole_ranges_give_whole_numbers_within_their_bounds(low, width, part):
    value = Range(low=low, high=low + width).at(part)
    assert isinstance(value, int) and low <= value <= low + width


def test_logarithmic_range_is_halved_at_geometric_mean():
    assert Range(low=1e-4, high=1e-2, log=True).at(0.5) == pytest.approx(1e-3)


def test_random_draws_have_requested_number_and_repeat():
    draws = asked(searcher(space(VARY), Search(rule="random", settings=200, seed=7)), 201)
    assert draws[-1] is None
    assert draws == asked(searcher(space(VARY), Search(rule="random", settings=200, seed=7)), 201)
    logs = [math.log10(draw["algorithm.lr"]) for draw in draws[:-1]]
    assert all(-5 <= log <= -2 for log in logs)
    # The mean of 200 uniform draws of width 3: standard deviation 3 / sqrt(12 * 200) = 0.06.
    assert sum(logs) / 200 == pytest.approx(-3.5, abs=0.3)
    assert {draw["algorithm.epochs"] for draw in draws[:-1]} == {1, 2, 3, 4}
    assert {draw["seed"] for draw in draws[:-1]} == {1, 2}


def test_optuna_learns_and_repeats_what_it_had_asked():
    pytest.importorskip("optuna")
    search = Search(rule="optuna", settings=40, seed=3, parallel=1)

    def minimise(repeated):
        found = searcher(space({"x": {"low": -10.0, "high": 10.0}}), search)
        values = []
        for number in range(40):
            if number < len(repeated):
                found.repeat(repeated[number])
            values.append(found.ask())
            found.tell(number, -(values[-1]["x"] ** 2))
        assert found.ask() is None
        return values

    values = minimise([])
    assert minimise(values[:25])[:25] == values[:25]
    # Of 40 uniform draws the later half is 5 away on average.
    assert sum(abs(value["x"]) for value in values[20:]) / 20 < 3.0


def test_later_settings_need_dial_in_workers(tmp_path):
    """The second setting is one that no run can have."""
    file = StudyFile(vary={"actors": {"num_envs": [1, -1]}}, search=Search(parallel=1))
    study = Study(tmp_path, file, [1])
    study.begin()
    here = Namespace(backend=None, machines=DriverOptions())
    with dial_in.serving(here, demand(study)) as listener:
        assert listener is None
    with pytest.raises(ConfigError, match="num_envs"):
        driver_badge(demand(study).runs)
