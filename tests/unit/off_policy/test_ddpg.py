"""Parts of MADDPG and IDDPG by hand, and both on tasks with known best actions."""

import dataclasses

import numpy as np
import pytest
from seeds import each_seed, slow

from marless.coordinator.placement.placement_rules import fused, split
from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.ddpg.policy_actions import current_actions, next_actions
from marless.functions.algorithms.off_policy.critic_inputs import recorded_calls
from marless.functions.algorithms.specification import Share
from marless.functions.algorithms.stage import Context
from marless.functions.data.replay_buffer import ReplayBuffer, RolloutKey
from marless.functions.environments.base import AgentClass, EnvSpec
from marless.functions.errors import BadRequest
from marless.functions.learner import stages
from marless.functions.messages.actor import Behaviour
from marless.functions.messages.team import Opponents, Team

EACH = pytest.mark.parametrize("name", ["maddpg", "iddpg"])
EACH_KIND = pytest.mark.parametrize("numbers", [False, True], ids=["choices", "numbers"])
NUM_ENVS, SIZE = 16, 2
APART = Team(groups=(0, 1))


def pair(numbers=False, masked=False, sides=(), state=0):
    """Two agents of one class, with three actions or one number from 0 to 1."""
    kind = {"actions": 1, "low": (0.0,), "high": (1.0,)} if numbers else {"actions": 3}
    return EnvSpec(("a", "b"), (AgentClass("x", (0, 1), SIZE, **kind),), 1, state, masked, sides)


def rollout(spec, rng, steps=1, **given):
    """A rollout of one-step episodes with varied actions. `given` replaces tensors."""
    kind, shape = spec.classes[0], (2, steps, NUM_ENVS)
    action = rng.uniform(-1, 1, (*shape, 1)) if kind.continuous else rng.integers(kind.actions, size=shape)
    made = {
        "observation/0": rng.standard_normal((*shape, SIZE)),
        "action/0": action,
        "reward": rng.standard_normal(shape),
        "terminated": np.ones(shape, bool),
        "alive": np.ones(shape, bool),
        "ended": np.ones(shape[1:], bool),
        "cut": np.empty((0, 2), np.int64),
        "cut_observation/0": np.empty((2, 0, SIZE)),
    }
    if spec.state_size:
        made |= {
            "state": rng.standard_normal((*shape[1:], spec.state_size)),
            "cut_state": np.empty((0, spec.state_size)),
        }
    if spec.masked:
        made |= {"mask/0": np.ones((*shape, kind.actions), bool), "cut_mask/0": np.empty((2, 0, kind.actions), bool)}
    return {**made, **given}


def scene(name, spec, made, team=APART, precision=np.float64, seed=1, **settings):
    """The algorithm, and the context of a round with one rollout in its replay buffer."""
    algorithm, state = algorithms.algorithm(name), {}
    noise = {"noise_start": 0.1} if spec.classes[0].continuous else {}
    config = algorithms.configuration(
        algorithm, {"hidden": [8], "gamma": 0.9, "batch_size": 64, "updates_per_round": 1, **noise, **settings}
    )
    for group in sorted(set(team.groups)):
        state |= algorithms.implementation(algorithm).initialise(spec, team, config, seed, group)
    state = {key: array.astype(precision) if array.dtype == np.float32 else array for key, array in state.items()}
    replay_buffer = ReplayBuffer(spec)
    replay_buffer.load([RolloutKey(0, 0, "")], lambda wanted: {wanted[0]: made})
    steps, num_envs = made["ended"].shape
    return algorithm, Context(
        spec, team, config, seed, 0, replay_buffer.segments_from(np.arange(num_envs), steps), state, replay_buffer
    )


def learned(algorithm, context, **tensors):
    groups = sorted(set(context.team.groups))
    share = Share([stage.name for stage in algorithm.stages], groups, range(context.config.updates_per_round))
    known = dataclasses.replace(context, tensors={**context.tensors, **tensors})
    return stages.run(algorithm, algorithms.implementation(algorithm), known, share)


@pytest.mark.slow
@each_seed
@pytest.mark.parametrize("name", ["maddpg", slow("iddpg")])
@pytest.mark.parametrize(("numbers", "best"), [(False, (2, 0)), (True, (0.5, -0.5))], ids=["choices", "numbers"])
def test_policies_learn_what_pays_best(name, numbers, best, seed):
    spec, rng = pair(numbers), np.random.default_rng(seed)
    made = rollout(spec, rng, steps=32)
    done = made["action/0"][..., 0] if numbers else made["action/0"]
    wanted = np.array(best)[:, None, None]
    made["reward"] = -((done - wanted) ** 2) if numbers else 1.0 * (done == wanted)
    settings = {
        "hidden": [16],
        "reward": "own",
        "updates_per_round": 500,
        "lr": 0.0005 if numbers else 0.005,
        "critic_lr": 0.02,
    }
    algorithm, context = scene(name, spec, made, precision=np.float32, seed=seed, **settings)
    tensors = learned(algorithm, context).tensors
    outputs = [policy_outputs(tensors, agent, made["observation/0"][agent].reshape(-1, SIZE)) for agent in (0, 1)]
    if numbers:
        np.testing.assert_allclose([np.tanh(own).mean() for own in outputs], best, atol=0.2)
    else:
        assert [set(own.argmax(axis=1)) for own in outputs] == [{choice} for choice in best]


def policy_outputs(tensors, agent, seen):
    prefix = f"policy/g{agent:02d}"
    return (
        np.tanh(seen @ tensors[f"{prefix}/w0"] + tensors[f"{prefix}/b0"]) @ tensors[f"{prefix}/w1"]
        + tensors[f"{prefix}/b1"]
    )


def with_critic(state, group, weights):
    """The tensors with the group's critic replaced by one hidden unit with value 2 tanh(x . weights)."""
    sized = np.array(weights, float)[:, None]
    one = {"w0": sized, "b0": np.zeros(1), "w1": np.array([[2.0]]), "b1": np.zeros(1)}
    flat = {"first": np.zeros(sized.size + 3), "second": np.zeros(sized.size + 3), "steps": np.zeros(1, np.int64)}
    named = {f"{part}/{group}/{key}": array for part in ("critic", "critic_target") for key, array in one.items()}
    return {**state, **named, **{f"critic_optimiser/{group}/{key}": array for key, array in flat.items()}}


def one_number(name, weights, **fields):
    """Agent a sees (1, 0) and b (0, 1). A did 0.5 and b -0.5. Both policies now give 0. All environments are equal."""
    made = rollout(pair(numbers=True), np.random.default_rng(0), **fields)
    made["observation/0"][:] = np.eye(2)[:, None, None]
    made["action/0"][0], made["action/0"][1] = 0.5, -0.5
    algorithm, context = scene(name, pair(numbers=True), made, critic_lr=1e-13, regularisation=0.0)
    quiet = {k: np.zeros_like(v) if k.startswith(("policy/", "target/")) else v for k, v in context.tensors.items()}
    quiet |= {k: np.array([0, 1.0, 1.0, 0]) for k in quiet if k.startswith("normaliser/")}  # of level 0
    context = dataclasses.replace(context, tensors=with_critic(quiet, "g00", weights))
    return algorithm, context


def test_independent_critic_gradient_equals_hand_computation():
    # x = (1, 0, a) and the value is 2 tanh(0.3 + 0.7 a). At a = 0 its gradient is 2 (1 - tanh(0.3)^2) 0.7. The loss is
    # minus the mean over 64 rows, so each has weight 1/64.
    algorithm, context = one_number("iddpg", [0.3, 5.0, 0.7])
    found = algorithms.implementation(algorithm).STAGES["critic"](context, 0).tensors["gradient/g00"]
    assert found.shape == (1, 1, 64, 1)
    np.testing.assert_allclose(found, -2 * (1 - np.tanh(0.3) ** 2) * 0.7 / 64, rtol=1e-9)


def test_central_critic_gradient_includes_actions_of_others():
    # x = (1, 0, 0, 1, a, -0.5): the value is 2 tanh(0.3 - 0.2 + 0.7 a + 0.4 * -0.5), so at a = 0 the argument is -0.1.
    algorithm, context = one_number("maddpg", [0.3, 5.0, 5.0, -0.2, 0.7, 0.4])
    code = algorithms.implementation(algorithm)
    for group in (0, 1):
        context = dataclasses.replace(
            context, tensors={**context.tensors, **code.STAGES["actors"](context, group).tensors}
        )
    found = code.STAGES["critic"](context, 0).tensors["gradient/g00"]
    np.testing.assert_allclose(found, -2 * (1 - np.tanh(-0.1) ** 2) * 0.7 / 64, rtol=1e-9)


def test_target_uses_target_policies_unless_episode_ended():
    # No episode ends. The next state is (0, 1, 1, 0) and target policies give tanh(0.5) and tanh(-1). With rewards 1
    # and gamma 0.9 the target is 1 + 0.9 * 2 tanh(0.1 - 0.25 + 0.7 tanh(0.5) + 0.4 tanh(-1)). The action taken in (1,
    # 0, 0, 1) has the value 2 tanh(0.3 - 0.2 + 0.7 * 0.5 + 0.4 * -0.5). The loss is the squared difference.
    cut = np.stack([np.zeros(NUM_ENVS, int), np.arange(NUM_ENVS)], axis=1)
    beyond = np.broadcast_to(np.eye(2)[::-1][:, None], (2, NUM_ENVS, 2)).copy()
    algorithm, context = one_number(
        "maddpg", [0.3, 0.1, -0.25, -0.2, 0.7, 0.4], cut=cut, reward=np.ones((2, 1, NUM_ENVS)),
        terminated=np.zeros((2, 1, NUM_ENVS), bool), **{"cut_observation/0": beyond},
    )  # fmt: skip
    config = algorithms.configuration(
        algorithm,
        {
            "hidden": [8],
            "gamma": 0.9,
            "batch_size": 64,
            "updates_per_round": 1,
            "noise_start": 0.1,
            "standardise_rewards": False,
            "reward": "own",
        },
    )
    code, biases = algorithms.implementation(algorithm), {"target/g00/b1": [0.5], "target/g01/b1": [-1.0]}
    given = {**context.tensors, **{key: np.array(value) for key, value in biases.items()}}
    context = dataclasses.replace(context, config=config, tensors=given)
    for group in (0, 1):
        context = dataclasses.replace(
            context, tensors={**context.tensors, **code.STAGES["actors"](context, group).tensors}
        )
    target = 1 + 0.9 * 2 * np.tanh(0.1 - 0.25 + 0.7 * np.tanh(0.5) + 0.4 * np.tanh(-1))
    value = 2 * np.tanh(0.3 - 0.2 + 0.7 * 0.5 + 0.4 * -0.5)
    metrics = code.STAGES["critic"](context, 0).metrics
    assert metrics["td_loss"] == pytest.approx((value - target) ** 2, rel=1e-9)
    assert metrics["value"] == pytest.approx(value, rel=1e-9)


@EACH
def test_gone_agents_have_no_part_in_learning(name):
    spec, rng = pair(state=3), np.random.default_rng(2)
    made = rollout(spec, rng)
    made["alive"][1, 0, ::3] = False
    made["terminated"][1, 0, ::3] = False
    gone = ~made["alive"]
    other = {key: array.copy() for key, array in made.items()}
    other["reward"][gone], other["action/0"][gone], other["observation/0"][gone] = 0.0, 0, 9.0
    # A side's reward is the sum of its agents', so only `own` rewards distinguish the rewards of dead agents.
    found = [learned(*scene(name, spec, content, reward="own")).tensors for content in (made, other)]
    assert [key for key in found[0] if found[0][key].tobytes() != found[1][key].tobytes()] == []


def changed_by_the_other_side(name, key, change):
    """Return for each side whether its critic changes with the second side's rows of `key`."""
    spec = pair(sides=(0, 1))
    made = rollout(spec, np.random.default_rng(3))
    other = {**made, key: made[key].copy()}
    change(other[key][1])
    one, another = (learned(*scene(name, spec, content)).tensors for content in (made, other))
    return [(one[f"critic/{group}/w0"] != another[f"critic/{group}/w0"]).any() for group in ("g00", "g01")]


@pytest.mark.parametrize(("name", "sees"), [("maddpg", True), ("iddpg", False)])
def test_central_critic_sees_actions_of_other_side(name, sees):
    def next_action(actions):
        actions[:] = (actions + 1) % 3

    assert changed_by_the_other_side(name, "action/0", next_action)[0] == sees


def test_rewards_are_those_of_ones_own_side():
    def more(rewards):
        rewards[:, ::2] += 1

    assert changed_by_the_other_side("maddpg", "reward", more) == [False, True]


def test_illegal_actions_are_never_taken_or_targeted():
    spec, rng = pair(masked=True), np.random.default_rng(4)
    made = rollout(spec, rng, steps=2, terminated=np.zeros((2, 2, NUM_ENVS), bool), ended=np.zeros((2, NUM_ENVS), bool))
    made["mask/0"] = rng.random((2, 2, NUM_ENVS, 3)) < 0.5
    made["mask/0"][..., 1] |= ~made["mask/0"].any(axis=-1)
    made["cut"] = np.stack([np.ones(NUM_ENVS, int), np.arange(NUM_ENVS)], axis=1)
    made["cut_observation/0"] = rng.standard_normal((2, NUM_ENVS, SIZE))
    made["cut_mask/0"] = np.zeros((2, NUM_ENVS, 3), bool)
    made["cut_mask/0"][..., 2] = True
    _, context = scene("maddpg", spec, made)
    batch = context.replay_buffer.sample(rng, 64, length=2)
    context = dataclasses.replace(context, batch=batch)
    for agent in (0, 1):
        now, after = current_actions(context, agent), next_actions(context, agent)
        legal = batch.masks[0][agent]
        assert ((now[0] == 1).sum(axis=-1) == 1).all()
        assert legal[now[0] == 1].all()
        assert legal[1][after[0, 0] == 1].all()
        assert (after[0, 1] == [0, 0, 1]).all()


def test_critics_see_one_hot_choices_and_raw_numbers():
    for numbers in (False, True):
        made = rollout(pair(numbers), np.random.default_rng(5))
        made["alive"][0, 0, :4] = False
        _, context = scene("iddpg", pair(numbers), made)
        context = dataclasses.replace(context, batch=context.replay_buffer.segments_from(np.arange(NUM_ENVS)))
        done, found = made["action/0"][0, 0], recorded_calls(context, 0)[0]
        wanted = done if numbers else np.eye(3)[done]
        assert (found[:4] == 0).all()
        assert (found[4:] == wanted[4:]).all()


@pytest.mark.parametrize(("name", "width"), [("maddpg", 2 * SIZE + 2 * 3), ("iddpg", SIZE + 3)])
def test_critic_is_as_wide_as_its_inputs(name, width):
    made = rollout(pair(), np.random.default_rng(0))
    _, context = scene(name, pair(), made)
    assert context.tensors["critic/g00/w0"].shape == (width, 8)
    _, context = scene(name, pair(), made, Team(groups=(0, 0), identity=True))
    assert context.tensors["critic/g00/w0"].shape == (width + 2, 8)
    assert context.tensors["policy/g00/w0"].shape == (SIZE + 2, 8)


def test_noise_falls_in_a_straight_line():
    config = algorithms.algorithm("maddpg").config(noise_start=0.5, noise_end=0.1, noise_steps=1000)
    found = [config.behaviour(steps) for steps in (0, 500, 1000, 5000)]
    assert [behaviour.kind for behaviour in found] == ["noise"] * 4
    assert [behaviour.amount for behaviour in found] == pytest.approx([0.5, 0.3, 0.1, 0.1])
    assert algorithms.algorithm("maddpg").config().behaviour(500) == Behaviour()


@EACH
@pytest.mark.parametrize(
    ("settings", "amounts"),
    [
        ({}, [0.5, 0.275, 0.05]),
        ({"noise_start": 0.2}, [0.2, 0.11, 0.02]),
        ({"noise_end": 0.3}, [0.5, 0.4, 0.3]),
        ({"noise_start": 0.1, "noise_end": 0.0}, [0.1, 0.05, 0.0]),
    ],
    ids=str,
)
def test_numbers_are_explored_by_default_and_settings(name, settings, amounts):
    config = algorithms.configuration(algorithms.algorithm(name), settings).resolved(pair(numbers=True))
    found = [config.behaviour(steps) for steps in (0, 25_000, 50_000)]
    assert [behaviour.kind for behaviour in found] == ["noise"] * 3
    assert [behaviour.amount for behaviour in found] == pytest.approx(amounts)


@EACH
def test_choices_have_no_noise_by_default(name):
    config = algorithms.configuration(algorithms.algorithm(name), {}).resolved(pair())
    assert (config.noise_start, config.noise_end, config.behaviour(0)) == (0, 0, Behaviour())


MIXED = EnvSpec(("a", "b"), (AgentClass("x", (0,), 2, 3), AgentClass("y", (1,), 2, 1, low=(0.0,), high=(1.0,))), 5)
SEVERAL = EnvSpec(("a",), (AgentClass("x", (0,), 2, 4, branches=(2, 2)),), 5)


@EACH
@pytest.mark.parametrize(
    ("spec", "settings", "message"),
    [
        (MIXED, {"noise_start": 0}, "agents act in numbers, and nothing explores: set noise_start"),
        (
            SEVERAL,
            {},
            "a makes several choices at once; the algorithm takes one, or numbers: use ippo or mappo, or with "
            "PettingZoo and RWARE task.options.joint_actions=true",
        ),
        (pair(numbers=True), {"noise_start": 0}, "agents act in numbers, and nothing explores: set noise_start"),
        (pair(), {"noise_end": 0.1}, "agents choose, and noise is for numbers: set noise_start and noise_end to 0"),
        (pair(), {"target_noise": 0.1}, "agents choose, and target_noise is for numbers: set it to 0"),
    ],
    ids=["numbers without noise beside choices", "several", "numbers without noise", "choices with noise", "smoothed"],
)
def test_unexplorable_tasks_are_refused_in_one_line(name, spec, settings, message):
    algorithm = algorithms.algorithm(name)
    config = algorithms.configuration(algorithm, settings).resolved(spec)
    with pytest.raises(BadRequest, match=message) as caught:
        algorithms.implementation(algorithm).initialise(spec, Team(groups=(0, 1)), config, 1, 0)
    assert "\n" not in str(caught.value)


@EACH
def test_fixed_opponents_may_act_in_another_way(name):
    opponents = Opponents(agents=(1,))
    for classes in (MIXED.classes, (MIXED.classes[0], AgentClass("y", (1,), 2, 4, branches=(2, 2)))):
        spec = EnvSpec(MIXED.agents, classes, MIXED.horizon, sides=(0, 1))
        algorithm = algorithms.algorithm(name)
        config = algorithms.configuration(algorithm, {}).resolved(spec)
        made = algorithms.implementation(algorithm).initialise(
            spec, Team(groups=(0, 1), opponents=opponents), config, 1, 0
        )
        assert made["policy/g00/b2"].shape == (3,)


def test_only_the_central_critic_waits_for_other_groups():
    independent, central = (algorithms.algorithm(name).stages for name in ("iddpg", "maddpg"))
    assert [work.name for wave in split(central, [0, 2]) for work in wave] == [
        f"learn/{stage}/{group}" for stage in ("actors", "critic", "policy") for group in ("g00", "g02")
    ]
    assert [work.stages for wave in fused(central, [0, 2]) for work in wave] == [
        ("actors",), ("actors",), ("critic", "policy"), ("critic", "policy"),
    ]  # fmt: skip
    assert [work.stages for wave in fused(independent, [0, 2], 8) for work in wave] == [("critic", "policy")] * 2
