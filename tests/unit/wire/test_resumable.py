"""Environments that continue from a saved state, and environments that a process keeps meanwhile."""

import numpy as np
import pytest
from task_fields import make_task

from marless.functions.actor.fragments import KeptEnvironments
from marless.functions.environments import registry
from marless.functions.environments.base import EnvironmentFault, EnvTask
from marless.functions.environments.resumable import SeparateEnvironments, resumable
from marless.functions.messages.actor import SampleTask
from marless.functions.messages.team import Team
from marless.functions.randomness import generator
from marless.testing import environments as conformance

MPE = [name for name in registry.BUILT_IN if name.startswith("mpe/")]
TOY = EnvTask(name="toy/signal", agents=3, options={"horizon": 6, "masked": True, "elimination": True, "mixed": True})
PLAYED_AGAIN = [
    TOY,
    EnvTask(name="toy/signal", agents=2, last_action=True),
    EnvTask(name="pettingzoo:mpe2.simple_spread_v3:parallel_env", options={"max_cycles": 9}),
    EnvTask(
        name="pettingzoo:mpe2.simple_spread_v3:parallel_env", options={"max_cycles": 9, "continuous_actions": True}
    ),
    EnvTask(name="package:rware/tiny-2ag", options={"max_steps": 11, "msg_bits": 1}),
    EnvTask(name="package:lbf/8x8-2p-3f", options={"max_episode_steps": 11}),
]
FIRST, LATER = 8, 9


def environment_of(task, num_envs=3):
    if task.name.startswith("package:rware"):
        pytest.importorskip("rware")
    if task.name.startswith("package:lbf"):
        pytest.importorskip("lbforaging")
    return resumable(lambda count: registry.make(task, count), num_envs)


def play(environment, seen, steps, rng):
    """Random legal actions. Returns everything that the steps showed, and the last observation."""
    shown = []
    for _ in range(steps):
        step = environment.step(tuple(drawn(kind, seen, c, rng) for c, kind in enumerate(environment.spec.classes)))
        shown.append(arrays(step))
        seen = step.observation
    return shown, seen


def drawn(kind, seen, c, rng):
    shape = seen.values[c].shape[:2]
    if kind.continuous:
        return rng.uniform(kind.low, kind.high, (*shape, kind.actions)).astype(np.float32)
    if kind.branches:
        return np.stack([rng.integers(width, size=shape) for width in kind.branches], axis=-1)
    legal = np.ones((*shape, kind.actions), bool) if seen.masks is None else seen.masks[c]
    return (legal * rng.random(legal.shape)).argmax(axis=-1)


def arrays(step):
    seen = [
        part
        for look in (step.observation, step.final)
        if look is not None
        for part in (*look.values, look.alive, *(look.masks or ()), look.state)
        if part is not None
    ]
    return [step.rewards, step.terminated, step.truncated, step.ended, *seen, *step.env_metrics.values()]


@pytest.mark.parametrize("task", [*(EnvTask(name=name) for name in MPE), *PLAYED_AGAIN], ids=lambda task: task.name)
def test_environment_continued_elsewhere_shows_same_bytes(task):
    one, other, kept = environment_of(task), environment_of(task), environment_of(task)
    actions, again = (np.random.default_rng(5) for _ in range(2))
    _, seen = play(one, one.reset(generator(1, "first")), FIRST, actions)
    play(kept, kept.reset(generator(1, "first")), FIRST, again)
    saved = one.save()
    before = {name: array.copy() for name, array in saved.items()}
    shown = []
    for environment in (one, other, kept):
        first = environment.resume(saved, generator(1, "later"))
        assert all(np.array_equal(a, b) for a, b in zip(first.values, seen.values, strict=True))
        shown.append(play(environment, first, LATER, np.random.default_rng(6))[0])
    for found in shown[1:]:
        for mine, theirs in zip(shown[0], found, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))
    assert all(np.array_equal(before[name], saved[name]) for name in saved)
    for environment in (one, other, kept):
        environment.close()


@pytest.mark.parametrize("task", PLAYED_AGAIN[:3], ids=lambda task: task.name)
def test_separate_environments_keep_to_the_protocol(task):
    conformance.check(lambda num_envs: SeparateEnvironments(lambda: registry.make(task, 1), num_envs))


class Forgetful:
    """An environment with shorter episodes every time."""

    def __init__(self):
        self._inner = registry.make(TOY, 1)
        self.spec, self.num_envs, self._episodes = self._inner.spec, 1, 0

    def reset(self, rng):
        self._episodes += 1
        return self._inner.reset(rng)

    def step(self, actions):
        step = self._inner.step(actions)
        return step if self._episodes == 1 else type(step)(**{**vars(step), "ended": np.array([True])})

    def close(self):
        self._inner.close()


def test_unrepeatable_environment_is_named():
    def legal(seen):
        return tuple(masks.argmax(axis=-1) for masks in seen.masks)

    environment = SeparateEnvironments(Forgetful, 1)
    seen = environment.reset(generator(1, "first"))
    environment.step(legal(seen))
    saved = environment.save()
    environment.step(legal(environment.resume(saved, generator(1, "later"))))
    with pytest.raises(EnvironmentFault, match="depends on more than its seed"):
        environment.resume(saved, generator(1, "later"))


class Copies:
    def __init__(self, num_envs):
        self.num_envs, self.closed = num_envs, False

    def close(self):
        self.closed = True


def task_of(rollouts, num_envs=2, run="run", environment=TOY):
    return make_task(SampleTask,
        id="", run=run, round=1, output="", timeout_s=1.0, seed=1, environment=environment, team=Team(groups=(0,)),
        policies=(), rollouts=rollouts, num_envs=num_envs, rollout_length=3, fragments=True,
    )  # fmt: skip


def keep(kept, task, rollout, round_=1):
    """Act like a task with a rollout's environments: take or make them, and return them."""
    environment = kept.take(task, rollout) or Copies(task.sampling.num_envs)
    kept.keep(task, rollout, round_, environment)
    return environment


def test_process_keeps_fitting_states_of_alternating_rollouts():
    kept = KeptEnvironments(4)
    first = [keep(kept, task_of((rollout,)), rollout, 1) for rollout in range(3)]
    assert [environment.closed for environment in first] == [False, False, True]
    again = [keep(kept, task_of((rollout,)), rollout, 2) for rollout in range(3)]
    assert again[:2] == first[:2] and again[2] is not first[2]
    kept.close()
    assert all(environment.closed for environment in again)


def test_leftovers_of_other_runs_make_room():
    kept = KeptEnvironments(4)
    other, old = keep(kept, task_of((0,), run="other"), 0, 7), keep(kept, task_of((0,)), 0, 1)
    new = keep(kept, task_of((1,)), 1, 2)
    assert (other.closed, old.closed, new.closed) == (True, False, False)
    newest = keep(kept, task_of((2,)), 2, 3)
    assert (old.closed, new.closed, newest.closed) == (True, False, False)


def test_small_process_keeps_states_of_one_rollout():
    kept = KeptEnvironments(0)
    first = keep(kept, task_of((0, 1)), 0)
    assert keep(kept, task_of((0, 1)), 0) is first and not first.closed
    assert kept.take(task_of((0, 1)), 1) is None
    assert first.closed


@pytest.mark.parametrize(
    ("other", "closed"),
    [({"num_envs": 3}, True), ({"environment": EnvTask(name="toy/signal")}, True), ({"run": "other"}, False)],
)
def test_only_environments_of_another_run_are_kept(other, closed):
    kept, environment = KeptEnvironments(9), Copies(2)
    kept.keep(task_of((0,)), 0, 1, environment)
    assert kept.take(task_of((0,), **other), 0) is None
    assert environment.closed == closed
    assert (kept.take(task_of((0,)), 0) is environment) != closed
