"""The length of a PettingZoo environment's episodes, found in the place that states it. Factories are offered."""

import msgspec
import numpy as np
import pytest
from relays import relay
from simulated import MemoryStorage
from task_fields import make_task

from marless.environments import check
from marless.functions.actor.handler import handle
from marless.functions.encoding import to_json
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.environments.pettingzoo.factory import factory_of
from marless.functions.messages.actor import DescribeTask
from marless.functions.messages.exchange import Done

SPREAD = "pettingzoo:mpe2.simple_spread_v3:parallel_env"


def named(factory, **options):
    return EnvTask(name=f"pettingzoo:stated.lengths:{factory}", options=options)


@pytest.mark.parametrize(
    ("task", "horizon", "source"),
    [
        (named("Attribute"), 21, "Attribute.episode_limit=21"),
        (named("Hidden"), 22, "Hidden._max_steps=22"),
        (named("Specified"), 23, "spec.max_episode_steps=23"),
        (named("Configured"), 24, "Configured.max_ticks=24"),
        (named("Tabled"), 25, "Tabled.horizon=25"),
        (named("Stingy"), 26, "Stingy.step_limit=26"),
        (named("Signed"), 27, "max_steps=27 in the signature of Signed"),
        (named("Signed", max_steps=7), 7, "task.options.max_steps=7"),
        (named("make"), 28, "max_turns=28 in the signature of make"),
        (named("game"), 18, "max_turns=9 in the signature of game, times 2 agents"),
    ],
    ids=lambda value: value.name.rpartition(":")[2] if isinstance(value, EnvTask) else None,
)
def test_length_comes_from_environment_with_named_source(task, horizon, source):
    spec, remark = registry.describe(task)
    assert spec.horizon == horizon
    assert f"at most {horizon} steps ({source})" in remark


@pytest.mark.parametrize(
    ("task", "horizon"),
    [
        (named("Attribute", horizon=4), 4),
        (EnvTask(name=SPREAD), 25),
        (relay("Mute", max_cycles=11), 11),
        (relay("LengthInside"), 17),
    ],
)
def test_user_or_pettingzoo_length_wins_silently(task, horizon):
    spec, remark = registry.describe(task)
    assert (spec.horizon, remark) == (horizon, "")


def test_limit_that_is_no_whole_number_is_ignored():
    with pytest.raises(ValueError, match=r"Unlimited does not say how long an episode is: add task\.options\.horizon"):
        registry.make(named("Unlimited"), 1)


@pytest.mark.parametrize("last_action", [False, True])
def test_describing_task_tells_user_the_length(last_action):
    task = EnvTask(name="pettingzoo:stated.lengths:Attribute", last_action=last_action)
    address = {"id": "i", "output": "o", "run": "r", "round": 0, "timeout_s": 9.0, "seed": 1}
    order = make_task(DescribeTask, **address, environment=task)
    done = msgspec.json.decode(handle(to_json(order), MemoryStorage()), type=Done)
    assert done.remarks == (
        "pettingzoo:stated.lengths:Attribute: an episode has at most 21 steps (Attribute.episode_limit=21)",
    )


def test_the_check_names_the_place_too(caplog):
    check(lambda num_envs: registry.make(named("Attribute"), num_envs), episodes=1, independent_envs=False)
    assert caplog.text.count("an episode has at most 21 steps (Attribute.episode_limit=21)") == 1


def test_factory_that_needs_arguments_is_not_called():
    with pytest.raises(ValueError, match=r"the factory needs size, rules: set task\.options\.size, or if that is no"):
        registry.make(named("needs"), 1)
    with pytest.raises(ValueError, match=r"the factory needs rules: set task\.options\.rules"):
        registry.make(named("needs", size=3), 1)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("pettingzoo:mpe2:simple_spread_v3", "'mpe2.simple_spread_v3' is a module and no factory; it offers .*{}"),
        ("pettingzoo:mpe2.simple_spread_v3", "names no environment: .*; it offers .*{}"),
        ("pettingzoo:mpe2.simple_spread_v3:spread", "has no factory 'spread'; it offers .*{}"),
        ("pettingzoo:mpe2", r"; 'mpe2' has the modules .*mpe2\.simple_adversary_v3"),
        ("pettingzoo:stated.lengths", "; it offers pettingzoo:stated.lengths:Unnamed, .* and 6 more"),
        ("pettingzoo:marless", "names no environment: write it as"),  # its names are loaded lazily
        ("pettingzoo:json", "'json' belongs to Python's own library"),
    ],
)
def test_module_named_as_factory_lists_its_factories(name, answer):
    with pytest.raises(ValueError, match=answer.format(SPREAD)) as refused:
        factory_of(name)
    assert "\n" not in str(refused.value)


def test_state_that_is_no_numeric_array_is_none():
    assert registry.spec(relay("Tabled")).state_size == 0
    environment = registry.make(relay("Tabled"), 1)
    assert environment.reset(np.random.default_rng(0)).state is None
