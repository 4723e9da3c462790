"""Ordinary steps are read with few checks, which give the same arrays as all checks and find every fault."""

import warnings

import numpy as np
import pytest
from gymnasium import spaces
from mpe2 import simple_spread_v3
from pettingzoo.utils import BaseParallelWrapper
from relays import Relay, relay

from benchmarks.adapters.masked_games import Ladder
from benchmarks.adapters.plan import draw
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.environments.pettingzoo.environment_copy import EnvironmentCopy
from marless.functions.environments.pettingzoo.global_state import StateWriter, _column_runs


def mpe(name, **options):
    return EnvTask(name=f"pettingzoo:mpe2.{name}:parallel_env", options=options)


def here(kind, **options):
    return EnvTask(name=f"pettingzoo:{__name__}:{kind}", options=options)


LADDER = EnvTask(name="pettingzoo:benchmarks.adapters.masked_games:Ladder")
TASKS = [
    mpe("simple_spread_v3"),
    mpe("simple_spread_v3", continuous_actions=True),
    mpe("simple_tag_v3"),
    mpe("simple_adversary_v3"),
    mpe("simple_speaker_listener_v4"),
    mpe("simple_world_comm_v3"),
    LADDER,
    relay(masked=True),
    relay("Speaking"),
    EnvTask(name="pettingzoo:pettingzoo.classic.tictactoe_v3:env", options={"horizon": 9}),
    EnvTask(name="package:lbf/8x8-2p-3f"),
    EnvTask(name="package:rware/tiny-2ag", options={"observation_type": "dict", "msg_bits": 1, "horizon": 12}),
]


SIGHTS = {
    "picture": spaces.Box(0, 255, (2, 3, 3), np.uint8),
    "choices": spaces.MultiDiscrete([3, 2]),
    "large": spaces.Box(-np.inf, np.inf, (2,), np.float32),
}


class Sights(Relay):
    """A relay of two agents with the observations that `sees` names."""

    def __init__(self, sees="large"):
        super().__init__(count=2, dying=False)
        self.sees = sees
        self.box = dict.fromkeys(self.possible_agents, SIGHTS[sees])

    def observe(self, agent):
        if self.sees == "large":
            return np.array([1e30, -1e30], np.float32)
        SIGHTS[self.sees].seed(self.steps)
        return SIGHTS[self.sees].sample()


class Doubled(BaseParallelWrapper):
    """Spread with all that agents see doubled, but not its state."""

    def __init__(self):
        super().__init__(simple_spread_v3.parallel_env())

    def reset(self, seed=None, options=None):
        seen, infos = self.env.reset(seed=seed, options=options)
        return {agent: 2 * values for agent, values in seen.items()}, infos

    def step(self, actions):
        seen, *rest = self.env.step(actions)
        return {agent: 2 * values for agent, values in seen.items()}, *rest


def arrays(seen):
    return [*seen.values, seen.alive, *(seen.masks or ()), *(() if seen.state is None else (seen.state,))]


def played(task, plan=None, num_envs=2):
    environment = registry.make(task, num_envs)
    plan = plan or draw(environment, 20)
    found = arrays(environment.reset(np.random.default_rng(1)))
    for actions in plan.actions:
        step = environment.step(actions)
        found += [*arrays(step.observation), step.rewards, step.terminated, step.truncated, step.ended]
        if step.final is not None:
            found += [part[step.ended] for part in arrays(step.final)]
    return found, plan


@pytest.mark.parametrize(
    "task", [*TASKS, *(here("Sights", sees=sees) for sees in SIGHTS)], ids=lambda task: f"{task.name}{task.options}"
)
def test_few_and_all_checks_give_same_bytes(task, monkeypatch):
    quickly, plan = played(task)
    monkeypatch.setattr(EnvironmentCopy, "_read_fast", lambda *_: None)
    monkeypatch.setattr(EnvironmentCopy, "_write_fast", lambda *_: False)
    monkeypatch.setattr("marless.functions.environments.pettingzoo.global_state._column_runs", lambda _: [])
    monkeypatch.setattr(StateWriter, "_write_fast", lambda *_: False)
    checked, _ = played(task, plan)
    for ours, expected in zip(quickly, checked, strict=True):
        assert (ours.dtype, ours.shape, ours.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())


@pytest.mark.parametrize("task", [task for task in TASKS if "relays" not in task.name], ids=lambda task: task.name)
def test_ordinary_steps_are_not_read_with_all_checks(task, monkeypatch):
    checked = []
    judge, write = EnvironmentCopy._read_checked, EnvironmentCopy._write_observation
    monkeypatch.setattr(EnvironmentCopy, "_read_checked", lambda *args: checked.append("end") or judge(*args))
    monkeypatch.setattr(EnvironmentCopy, "_write_observation", lambda *args: checked.append("seen") or write(*args))
    _, plan = played(task, num_envs=1)
    assert "seen" not in checked
    # Where some agents of several end: the climbers of the ladder at its top.
    assert len(checked) <= len(plan.lengths) * 2 * (4 if task == LADDER else 0)


@pytest.mark.parametrize("task", [LADDER, relay("Speaking"), TASKS[0]], ids=lambda task: task.name)
def test_what_a_step_returned_is_not_written_again(task):
    environment = registry.make(task, 2)
    plan = draw(environment, 20)
    kept = [environment.reset(np.random.default_rng(1))]
    before = [[part.copy() for part in arrays(kept[0])]]
    for actions in plan.actions:
        kept.append(environment.step(actions).observation)
        before.append([part.copy() for part in arrays(kept[-1])])
    for seen, copies in zip(kept, before, strict=True):
        for part, copy in zip(arrays(seen), copies, strict=True):
            np.testing.assert_array_equal(part, copy)


def test_numbers_with_infinite_squares_are_still_numbers():
    seen = registry.make(here("Sights"), 1).reset(np.random.default_rng(0))
    np.testing.assert_array_equal(seen.values[0][0], np.full((2, 2), [1e30, -1e30], np.float32))


def test_number_beyond_float32_is_fault_without_warning():
    environment = registry.make(relay(fault="too large"), 1)
    environment.reset(np.random.default_rng(0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        environment.step((np.zeros((1, 3), np.int64),))
        with pytest.raises(Exception, match="the observation of agent 'runner_1' is not finite"):
            environment.step((np.zeros((1, 3), np.int64),))


def test_observation_wrapper_is_asked_for_its_state():
    seen = registry.make(here("Doubled"), 1).reset(np.random.default_rng(0))
    np.testing.assert_array_equal(2 * seen.state[0], seen.values[0][0].reshape(-1))


def test_state_blocks_are_consecutive_agents_of_class():
    adversary = registry.spec(mpe("simple_adversary_v3"))
    assert _column_runs(adversary.classes) == [(slice(0, 8), 0, slice(0, 1)), (slice(8, 28), 1, slice(0, 2))]


def test_environments_get_python_numbers_for_one_choice(monkeypatch):
    kinds = []
    step = Ladder.step
    monkeypatch.setattr(
        Ladder, "step", lambda self, actions: kinds.extend(map(type, actions.values())) or step(self, actions)
    )
    played(LADDER, num_envs=1)
    assert {*kinds} == {int}
