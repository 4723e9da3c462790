"""The hold-out tasks exist: each can be planned with its settings and plays a few steps."""

from itertools import islice
from pathlib import Path

import pytest

from marless.coordinator.config.loading import convert
from marless.coordinator.config.nested_tables import merge
from marless.coordinator.core.compatibility import incompatibility
from marless.coordinator.platform import Platform
from marless.functions.environments.registry import make
from marless.functions.errors import MissingExtra
from marless.studies import study_file
from marless.testing.environments import checked_steps

STUDY = study_file.load(Path(__file__).parents[4] / "benchmarks" / "hold_outs.toml")


@pytest.mark.parametrize("setting", STUDY.setting, ids=lambda setting: setting.name)
def test_a_hold_out_builds_and_plays(setting):
    config = convert(merge(STUDY.base, setting.values), setting.name)
    try:
        spec = make(config.task, 2).spec
    except MissingExtra as missing:
        pytest.skip(str(missing))
    assert incompatibility(config, spec, None, Platform()) == ""
    # The first observation, and 20 steps of random legal actions, each with all its checks.
    assert len(list(islice(checked_steps(make(config.task, 2), seed=1), 21))) == 21


def test_world_comm_opponents_are_frozen_at_random_play():
    world_comm = convert(merge(STUDY.base, STUDY.setting[0].values), "world_comm")
    assert (world_comm.opponents.side, world_comm.opponents.policies) == (1, "random")
