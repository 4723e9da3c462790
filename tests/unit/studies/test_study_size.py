"""How many runs a study may have."""

from pathlib import Path

import pytest

from marless.coordinator.config.schema import ConfigError
from marless.studies.study import Study
from marless.studies.study_file import Search, Setting, StudyFile

# Numbers that nobody could count through.
GRID = {"algorithm.lr": list(range(1, 10**6)), "actors": {"num_envs": list(range(1, 10**6))}}


@pytest.mark.parametrize(
    ("file", "seeds", "says"),
    [
        (StudyFile(vary=GRID), [1, 2], "999,998,000,001 settings with 2 seeds each: 1,999,996,000,002 runs, and a"),
        (StudyFile(), range(10_001), "1 setting with 10,001 seeds each: 10,001 runs, and a study has at most 10,"),
        (StudyFile(setting=[Setting(name="a"), Setting(name="b")]), range(5_001), "each: 10,002 runs"),
        (StudyFile(vary=GRID, search=Search(rule="random", settings=10_001)), [1], "1 seed each: 10,001 runs"),
    ],
)
def test_a_study_of_too_many_runs_is_refused_before_any_is_made_up(file, seeds, says):
    with pytest.raises(ConfigError, match=says):
        Study(Path("nowhere"), file, seeds)


def test_a_random_search_over_long_lists_is_as_large_as_its_settings():
    study = Study(Path("nowhere"), StudyFile(vary=GRID, search=Search(rule="random", settings=3)), [1, 2])
    assert len(study.ask()) == 2
