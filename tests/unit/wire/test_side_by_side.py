"""Rollouts played side by side have the same bytes as each played alone."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from task_fields import make_task

from marless.functions.actor import handler
from marless.functions.actor.handler import play
from marless.functions.actor.rollout import InBlocks, collect, collect_side_by_side
from marless.functions.algorithms.ppo import mappo
from marless.functions.algorithms.ppo.specs import MappoConfig
from marless.functions.environments import registry
from marless.functions.environments.base import AgentClass, EnvironmentFault, EnvSpec, EnvTask, Observation, Step
from marless.functions.environments.mpe.engine import Body, Engine, Scenario
from marless.functions.errors import NotFinite
from marless.functions.messages.actor import SampleTask
from marless.functions.messages.team import Team
from marless.functions.policies import Policy

TOY = EnvTask(name="toy/signal", agents=3, options={"masked": True, "elimination": True, "mixed": True, "horizon": 4})
TASKS = {
    "spread": EnvTask(name="mpe/simple_spread"),
    "spread of six": EnvTask(name="mpe/simple_spread", agents=6),
    "adversary": EnvTask(name="mpe/simple_adversary", agents=4),
    "toy": TOY,
}
NUM_ENVS = (1, 2, 3, 7, 64)


def bytes_of(*arrays):
    return [np.asarray(array).tobytes() for array in arrays]


def six(sizes, seed=0):
    rng, tensors = np.random.default_rng(seed), {}
    for group, (layer, shape) in itertools.product(range(6), enumerate(itertools.pairwise(sizes))):
        weight = 2 * rng.standard_normal(shape) / shape[0] ** 0.5
        tensors[f"policy/g{group:02d}/w{layer}"] = weight.astype(np.float32)
        tensors[f"policy/g{group:02d}/b{layer}"] = rng.standard_normal(shape[1], dtype=np.float32)
    kind = AgentClass("x", tuple(range(6)), sizes[0], sizes[-1])
    return Policy(EnvSpec(tuple("abcdef"), (kind,), 1), Team(groups=tuple(range(6))), tensors)


def logits(policy, values, blocks=1):
    (found,) = policy.logits(Observation((values.swapaxes(0, 1),), np.ones((values.shape[1], 6), bool)), blocks)
    return found


@pytest.mark.parametrize("order", ["agents first", "copies first"])
@pytest.mark.parametrize("sizes", [(36, 64, 64, 5), (7, 16, 3), (1, 1, 2), (130, 33, 9)], ids=str)
@pytest.mark.parametrize("num_envs", NUM_ENVS)
def test_environment_block_has_logits_of_alone(num_envs, sizes, order):
    policy = six(sizes)
    for rollouts in (1, 2, 5, 50):
        values = np.random.default_rng(1).standard_normal((6, rollouts * num_envs, sizes[0]), dtype=np.float32)
        if order == "copies first":
            values = np.ascontiguousarray(values.swapaxes(0, 1)).swapaxes(0, 1)
        together = logits(policy, values, rollouts)
        for rollout in range(rollouts):
            own = slice(rollout * num_envs, (rollout + 1) * num_envs)
            # The layout of an environment of a single rollout.
            alone = values[:, own].copy(order="K")
            assert bytes_of(logits(policy, alone)) == bytes_of(together[:, own])


def two_classes(num_envs, masked, seed):
    spec = EnvSpec(("a", "b", "c"), (AgentClass("x", (0, 2), 6, 5), AgentClass("y", (1,), 4, 3)), 1, masked=masked)
    rng = np.random.default_rng(seed)
    values, masks, uniforms = [], [], []
    for kind in spec.classes:
        shape = (num_envs, len(kind.agents))
        values.append(3 * rng.standard_normal((*shape, kind.observation_size), dtype=np.float32))
        masks.append(rng.random((*shape, kind.actions)) < 0.6)
        masks[-1][..., 0] = True
        uniforms.append(rng.random(shape[::-1], dtype=np.float32))
    seen = Observation(tuple(values), np.ones((num_envs, 3), bool), tuple(masks) if masked else None)
    return spec, seen, tuple(uniforms)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("rollouts", [2, 5])
def test_block_of_any_size_draws_same_actions(rollouts, masked):
    team = Team(groups=(0, 1, 2))
    for num_envs in range(1, 70):
        spec, seen, uniforms = two_classes(rollouts * num_envs, masked, num_envs)
        policy = Policy(spec, team, weights(spec, team, num_envs))
        together = policy.sample(seen, uniforms, rollouts)
        for rollout in range(rollouts):
            own = slice(rollout * num_envs, (rollout + 1) * num_envs)
            masks = tuple(mask[own] for mask in seen.masks) if masked else None
            part = Observation(tuple(array[own] for array in seen.values), seen.alive[own], masks)
            alone = policy.sample(part, tuple(np.ascontiguousarray(array[:, own]) for array in uniforms))
            for index in range(2):
                assert bytes_of(alone.actions[index], alone.log_probability[index]) == bytes_of(
                    together.actions[index][:, own], together.log_probability[index][:, own]
                )


def weights(spec, team, seed=3):
    """Random policies, sharpened so that they are far from uniform."""
    tensors = {}
    for group in sorted(set(team.groups)):
        tensors |= mappo.initialise(spec, team, MappoConfig(hidden=(64, 64)), seed, group)
    return {name: array * (100 if "/w2" in name else 1) for name, array in tensors.items() if "policy/" in name}


class Hunt(Scenario):
    """A scenario with custom start states, speed limits, contacts and exponentials."""

    goals = 2

    def __init__(self):
        self.agents = tuple(Body(f"agent_{i}", 0.2, collides=True, max_speed=0.4 + 0.3 * i) for i in range(3))
        self.landmarks = tuple(Body(f"landmark_{i}", 0.3, collides=i > 0) for i in range(2))
        self.classes = (AgentClass("x", (0, 1, 2), 10, 5),)

    def start(self, world, rng):
        world.position[: world.bodies] = 0.4 * rng.standard_normal((world.bodies, 2, world.num_envs))
        world.velocity[:] = rng.uniform(-1, 1, world.velocity.shape)
        world.goals[:] = rng.permuted(np.arange(world.goals.size) % 2).reshape(world.goals.shape)

    def observe(self, world, features):
        features[0][:, :8] = world.relative_observations(slice(0, 3))
        features[0][:, 8:] = world.velocity

    def reward(self, world, out):
        out[:] = np.exp(-world.distance[:, world.bodies]) - world.distance[:, world.bodies + 1] ** 2


def engines(name, num_envs, rollouts):
    if name == "hunt":
        return Engine(Hunt(), num_envs * rollouts, 25), [Engine(Hunt(), num_envs, 25) for _ in range(rollouts)]
    return registry.make(TASKS[name], num_envs * rollouts), [
        registry.make(TASKS[name], num_envs) for _ in range(rollouts)
    ]


@pytest.mark.parametrize("num_envs", NUM_ENVS)
@pytest.mark.parametrize("name", ["spread", "spread of six", "adversary", "hunt"])
def test_engine_block_has_bytes_of_own_engine(name, num_envs):
    rollouts, choices = 3, np.random.default_rng(0)
    joint, alone = engines(name, num_envs, rollouts)
    assert isinstance(joint, InBlocks)
    seen = joint.reset_blocks([np.random.default_rng(seed) for seed in range(rollouts)])
    parts = [engine.reset(np.random.default_rng(seed)) for seed, engine in enumerate(alone)]
    assert_same_blocks(seen, parts)
    for _ in range(60):  # two resets and more
        actions = tuple(choices.integers(0, 5, (joint.num_envs, len(kind.agents))) for kind in joint.spec.classes)
        step = joint.step(actions)
        steps = [
            engine.step(tuple(numbers[rollout * num_envs : (rollout + 1) * num_envs] for numbers in actions))
            for rollout, engine in enumerate(alone)
        ]
        assert_same_blocks(step.observation, [part.observation for part in steps])
        assert bytes_of(step.rewards) == bytes_of(np.concatenate([part.rewards for part in steps]))
        assert step.ended.tolist() == [end for part in steps for end in part.ended.tolist()]
        assert (step.final is None) == (steps[0].final is None)
        if step.final is not None:
            assert_same_blocks(step.final, [part.final for part in steps])


def assert_same_blocks(seen, parts):
    for index, values in enumerate(seen.values):
        assert bytes_of(values) == bytes_of(np.concatenate([part.values[index] for part in parts]))


def test_engine_forgets_blocks_when_reset_as_one():
    engine, other = (registry.make(TASKS["adversary"], 6) for _ in range(2))
    engine.reset_blocks([np.random.default_rng(seed) for seed in range(3)])
    one, two = (each.reset(np.random.default_rng(9)) for each in (engine, other))
    assert_same_blocks(one, [two])


@pytest.mark.parametrize("blocks", [0, 2, 5])
def test_environments_not_equally_divisible_are_refused(blocks):
    engine = registry.make(TASKS["spread"], 3)
    with pytest.raises(ValueError, match=f"3 environments are not {blocks} equal blocks"):
        engine.reset_blocks([np.random.default_rng(0)] * blocks)


class SideBySide:
    """Several environments as the blocks of one, each with its own episode lengths, masks, states and metrics."""

    def __init__(self, environments):
        self.environments, self.spec = environments, environments[0].spec
        self.num_envs = sum(environment.num_envs for environment in environments)

    def reset(self, rng):
        raise AssertionError("blocks have a generator each")

    def reset_blocks(self, rngs):
        return joined([part.reset(rng) for part, rng in zip(self.environments, rngs, strict=True)])

    def step(self, actions):
        ends = np.cumsum([part.num_envs for part in self.environments])[:-1]
        shares = zip(*(np.split(numbers, ends) for numbers in actions), strict=True)
        steps = [part.step(share) for part, share in zip(self.environments, shares, strict=True)]
        finals = [step.final or step.observation for step in steps]
        names = ("rewards", "terminated", "truncated", "ended")
        rewards, terminated, truncated, ended = (np.concatenate([getattr(s, name) for s in steps]) for name in names)
        return Step(
            joined([step.observation for step in steps]), rewards, terminated, truncated, ended,
            joined(finals) if ended.any() else None,
            {name: np.concatenate([step.env_metrics[name] for step in steps]) for name in steps[0].env_metrics},
        )  # fmt: skip

    def close(self):
        pass


def joined(parts):
    values, masks = (
        tuple(np.concatenate(arrays) for arrays in zip(*found, strict=True))
        for found in ([part.values for part in parts], [part.masks or () for part in parts])
    )
    state = None if parts[0].state is None else np.concatenate([part.state for part in parts])
    return Observation(values, np.concatenate([part.alive for part in parts]), masks or None, state)


def assert_same_rollouts(together, alone):
    assert len(together) == len(alone)
    for found, expected in zip(together, alone, strict=True):
        assert list(found.tensors) == list(expected.tensors)
        for name, array in expected.tensors.items():
            assert (found.tensors[name].dtype, found.tensors[name].shape) == (array.dtype, array.shape), name
            assert found.tensors[name].flags.c_contiguous, name
            assert bytes_of(found.tensors[name]) == bytes_of(array), name
        assert bytes_of(found.episodes.agent_returns()) == bytes_of(expected.episodes.agent_returns())
        assert found.episodes.env_metrics == expected.episodes.env_metrics


@settings(max_examples=25, deadline=None)
@given(
    num_envs=st.integers(1, 6), rollouts=st.lists(st.integers(0, 99), min_size=1, max_size=4, unique=True),
    steps=st.integers(1, 12), masked=st.booleans(), elimination=st.booleans(), mixed=st.booleans(),
)  # fmt: skip
def test_rollouts_side_by_side_are_recorded_apart(num_envs, rollouts, steps, masked, elimination, mixed):
    options = {"masked": masked, "elimination": elimination, "mixed": mixed, "horizon": 4}
    task, team = EnvTask(name="toy/signal", agents=3, options=options), Team(groups=(0, 1, 2))
    joint = SideBySide([registry.make(task, num_envs) for _ in rollouts])
    policy = Policy(joint.spec, team, weights(joint.spec, team))
    together = collect_side_by_side(joint, policy, steps, 5, 6, rollouts)
    assert_same_rollouts(
        together, [collect(registry.make(task, num_envs), policy, steps, 5, 6, rollout) for rollout in rollouts]
    )


def sampling(task, rollouts, num_envs, steps):
    team = Team(groups=tuple(range(len(registry.spec(task).agents))), identity=True)
    return make_task(SampleTask,
        id="t", run="r", round=2, output="o", timeout_s=1, seed=1, environment=task, team=team, policies=(),
        rollouts=rollouts, num_envs=num_envs, rollout_length=steps,
    ), weights(registry.spec(task), team)  # fmt: skip


def assert_as_alone(task, rollouts, num_envs, steps):
    """Plays the rollouts in one invocation, in one each, and each without a handler."""
    together, tensors = sampling(task, rollouts, num_envs, steps)
    found, reply, _ = play(together, tensors, 3)
    returns = ()
    for rollout in rollouts:
        one, own, _ = play(sampling(task, (rollout,), num_envs, steps)[0], tensors, 3)
        environment = registry.make(task, num_envs)
        plain = collect(environment, Policy(environment.spec, together.team, tensors), steps, 1, 3, rollout)
        assert sorted(one) == sorted(plain.tensors) == sorted(name for name in found if f"u{rollout:05d}" in name)
        for name, array in plain.tensors.items():
            assert bytes_of(found[name]) == bytes_of(one[name]) == bytes_of(array), name
        returns += own.returns
    assert reply.returns == returns
    assert len(returns) >= len(rollouts) * num_envs * (steps // registry.spec(task).horizon)
    assert reply.env_steps == len(rollouts) * num_envs * steps
    return found, reply


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("num_envs", "rollouts"), [(1, range(10)), (3, (4, 7, 8)), (64, (0, 1))])
@pytest.mark.parametrize("name", TASKS)
def test_invocation_gives_rollout_its_separate_bytes(name, num_envs, rollouts):
    _, reply = assert_as_alone(TASKS[name], tuple(rollouts), num_envs, 30 if num_envs > 1 else 100)
    assert bool(reply.env_metrics) == (name == "toy")


def test_jointly_stepped_environments_stay_within_memory(monkeypatch):
    monkeypatch.setattr(handler, "ROWS", 5)
    environments, make = [], registry.make

    class CountingRegistry:
        @staticmethod
        def make(task, num_envs):
            environments.append(make(task, num_envs))
            environments[-1].stepped, environments[-1].closed = 0, 0
            step, close = environments[-1].step, environments[-1].close

            def count(actions, environment=environments[-1]):
                environment.stepped += 1
                return step(actions)

            def count_close(environment=environments[-1]):
                environment.closed += 1
                close()

            environments[-1].step, environments[-1].close = count, count_close
            return environments[-1]

    monkeypatch.setattr(handler, "registry", CountingRegistry)
    for num_envs, expected in ((2, [4, 4, 2]), (5, [5] * 5), (6, [6] * 5), (1, [5])):
        environments.clear()
        play(*sampling(TASKS["spread"], (0, 1, 2, 3, 4), num_envs, 25), 3)
        assert [environment.num_envs for environment in environments if environment.stepped] == expected
        assert all(environment.closed == 1 for environment in environments)
    monkeypatch.undo()
    monkeypatch.setattr(handler, "ROWS", 5)
    assert_as_alone(TASKS["spread"], (0, 1, 2, 3, 4), 2, 25)


def test_the_rollout_that_is_not_finite_is_named():
    class Broken(Hunt):
        def reward(self, world, out):
            out[:] = 1.0
            out[0, 4:] = np.nan

    engine = Engine(Broken(), 6, 3)
    policy = Policy(engine.spec, Team(groups=(0, 1, 2)), weights(engine.spec, Team(groups=(0, 1, 2))))
    with pytest.raises(EnvironmentFault, match="rollout 13: reward holds NaN or infinity"):
        collect_side_by_side(engine, policy, 3, 0, 0, (11, 12, 13))


def test_policy_output_not_finite_is_fault_of_policy():
    engine, team = registry.make(TASKS["spread"], 3), Team(groups=(0, 1, 2))
    made = {name: np.full_like(array, np.nan) for name, array in weights(engine.spec, team).items()}
    with pytest.raises(NotFinite, match="rollout 7: log_probability/0 holds NaN or infinity"):
        collect_side_by_side(engine, Policy(engine.spec, team, made), 3, 0, 0, (7,))
