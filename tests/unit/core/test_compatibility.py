"""Valid configurations that are incompatible with a task."""

import tomllib
from pathlib import Path

import pytest

from marless.coordinator.config.loading import load
from marless.coordinator.core.compatibility import incompatibility
from marless.coordinator.platform import Platform
from marless.functions.environments import registry
from marless.functions.environments.base import AgentClass, EnvSpec

MISFITS, FITS = tomllib.loads(Path(__file__).with_name("compatibility.toml").read_text("utf-8")).values()


# One agent with discrete and one with continuous actions.
BOTH = EnvSpec(
    agents=("a", "b"),
    classes=(AgentClass("a", (0,), 3, 2), AgentClass("b", (1,), 3, 2, low=(0.0, 0.0), high=(1.0, 1.0))),
    horizon=5,
)


def problem_of(settings):
    """On a machine with a slot for each of three groups."""
    config = load(None, settings)
    return incompatibility(config, registry.spec(config.task), platform=Platform(concurrency=3))


@pytest.mark.parametrize("name", MISFITS)
def test_incompatible_settings_are_one_line_with_key(name):
    settings, said = MISFITS[name]
    assert said in problem_of(settings) and "\n" not in problem_of(settings)


@pytest.mark.parametrize("name", FITS)
def test_what_fits_passes(name):
    assert problem_of(FITS[name]) == ""


@pytest.mark.parametrize("distance", ["jsd", "hellinger", "w2"])
def test_mixed_action_kinds_name_the_distance_for_both(distance):
    config = load(None, ["sharing.rule=dynamic", f"sharing.distance={distance}"])
    assert incompatibility(config, BOTH).endswith("; use kde-kl")
    assert incompatibility(load(None, ["sharing.rule=dynamic", "sharing.distance=kde-kl"]), BOTH) == ""
