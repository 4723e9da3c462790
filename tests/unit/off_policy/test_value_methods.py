"""IQL, VDN and QMIX on tasks with known solutions, and their refusals."""

import msgspec
import numpy as np
import pytest
import trained_teams
from seeds import each_seed, slow
from simulated import MemoryStorage
from task_fields import make_task
from trained_teams import invoke_learner, returned, trained_policy

from marless.coordinator.config.loading import load
from marless.coordinator.config.schema import ConfigError
from marless.functions import codec
from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.value.mixer import mixer_of
from marless.functions.environments import registry
from marless.functions.environments.base import AgentClass, EnvSpec, EnvTask, Observation
from marless.functions.evaluator.handler import play
from marless.functions.learner.handler import handle as learn
from marless.functions.messages.exchange import Answer, Failed
from marless.functions.messages.learner import InitialiseTask
from marless.functions.messages.team import Team
from marless.functions.nn import recurrent

SMALL = {
    "gamma": 0.99,
    "hidden": [32],
    "lr": 1e-2,
    "batch_size": 64,
    "updates_per_round": 40,
    "buffer_size": 10_000,
    "tau": 0.1,
}
# All actions are random, so that all pairs of actions are equally frequent.
EXPLORING = {**SMALL, "epsilon_start": 1.0, "epsilon_end": 1.0}
# PQN takes many more steps, from as many more episodes.
PARALLEL = {"hidden": [32], "lr": 3e-3, "epsilon_end": 1.0, "epochs": 8, "num_minibatches": 4, "td_lambda": 0.0}
OWN = {"iql": {}, "vdn": {}, "qmix": {"mixing_embed_dim": 8, "hypernet_embed": 8}, "qplex": {"hypernet_embed": 8}}
TWO_STEP, CORRIDOR = EnvTask(name="matrix/two_step"), EnvTask(name="toy/corridor")


def learned(task, name, seed=0, rounds=8, num_envs=32, **settings):
    return trained_policy(task, name, {**EXPLORING, **OWN[name], **settings}, rounds, num_envs, seed=seed)


def outputs(policy, cells):
    """Outputs ``[agents, cells, actions]`` of agents that observe each cell of a task as a one-hot."""
    seen = np.repeat(np.eye(cells, dtype=np.float32)[:, None], 2, axis=1)
    return policy.outputs(Observation(values=(seen,), alive=np.ones((cells, 2), bool)))[0][0]


def values(task, name, cells, seed, **settings):
    """Two agents' action values: outputs plus the level, or half of a joint level."""
    replaying = {**EXPLORING, **OWN.get(name, {}), **settings, "standardise_rewards": False}
    chosen = (PARALLEL | {"gamma": 0.99}, 12, 512) if name == "pqn" else (replaying, 10, 64)
    policy, tensors = trained_teams.train(task, name, *chosen, seed=seed)
    levels = [array[3] for key, array in sorted(tensors.items()) if key.startswith("normaliser/")]
    each = levels if len(levels) == 2 else [sum(levels) / 2] * 2
    return outputs(policy, cells) + np.array(each)[:, None, None]


# -- learnable tasks


@pytest.mark.slow
@each_seed
@pytest.mark.parametrize(("name", "earned"), [("qmix", 8), ("vdn", 7), ("iql", 7)])
def test_two_step_game_needs_values_beyond_sums(name, earned, seed):
    """The game of the QMIX paper (section 5): the best is 8, and a sum of values prefers the safe 7."""
    assert returned(TWO_STEP, learned(TWO_STEP, name, seed)) == earned


@each_seed
@pytest.mark.parametrize("name", ["vdn", "pqn"])
def test_values_are_the_closest_sum_to_the_rewards(name, seed):
    """By unweighted least squares over the four pairs of state 2B: -1.5, 2.5, 2.5 and 6.5, against 0, 1, 1 and 8."""
    one, two = values(TWO_STEP, name, 3, seed, batch_size=128, updates_per_round=60, hidden=[16], lr=3e-3)
    np.testing.assert_allclose(one[2][:, None] + two[2], [[-1.5, 2.5], [2.5, 6.5]], atol=0.5)
    np.testing.assert_allclose(one[1][:, None] + two[1], np.full((2, 2), 7), atol=0.5)


@each_seed
def test_qmix_joint_values_equal_game(seed):
    """Values of pairs, discounted by 0.99 in the first state: the first agent's actions lead to 7 and 8. The paper's
    table 2 has 6.93, 6.93, 7.92, 7.92. 7.00 four times. 0.00, 1.00, 1.00, 8.00."""
    settings = {**EXPLORING, **OWN["qmix"], "standardise_rewards": False}
    policy, tensors = trained_teams.train(TWO_STEP, "qmix", settings, 8, 64, seed=seed)
    mixer, flat = mixer_of(tensors, "mixer/g00")
    level = float(tensors["normaliser/g00"][3])
    one, two = outputs(policy, 3)
    found = []
    for state in range(3):
        seen = np.repeat(np.eye(3, dtype=np.float32)[state : state + 1], 4, axis=0)
        pairs = np.stack([one[state].repeat(2), np.tile(two[state], 2)], axis=1)
        found.append(mixer.forward(flat, seen, pairs)[0] + level)
    np.testing.assert_allclose(found, [[6.93, 6.93, 7.92, 7.92], [7, 7, 7, 7], [0, 1, 1, 8]], atol=0.05)


@pytest.mark.conformance
@pytest.mark.parametrize("name", ["iql", "vdn", "qmix"])
def test_decaying_exploration_may_solve_high_penalty_game(name):
    """With -7 and a random partner a corner is worth 1 and the middle 2/3. So the seed decides whether both settle on
    the same corner: of ten seeds 4, 6 and 8 do."""
    task, settings = EnvTask(name="matrix/penalty", options={"k": -7}), {**SMALL, **OWN[name], "epsilon_steps": 300}
    returns = [returned(task, trained_policy(task, name, settings, 6, num_envs=64, seed=seed)) for seed in range(20)]
    assert max(returns) == 10


@pytest.mark.slow
@each_seed
@pytest.mark.parametrize("name", [slow("iql"), "vdn", slow("qmix")])
def test_decaying_exploration_solves_penalty_game(name, seed):
    """With a penalty of -3 the corners, 7/3 in the mean over a random partner, are worth more than the middle, 2/3.
    Both agents settle on one of the two pairs that pay 10 as they explore less."""
    task = EnvTask(name="matrix/penalty", options={"k": -3})
    settings = {**SMALL, **OWN[name], "epsilon_steps": 1000, "buffer_size": 500}
    found = returned(task, trained_policy(task, name, settings, rounds=20, num_envs=64, seed=seed))
    assert found == 10


@pytest.mark.slow
@each_seed
def test_maddpg_central_critic_learns_climbing_game(seed):
    """An unrestricted joint value: the optimum of 11 lies among penalties that a mean over partners would hide."""
    pays = [[11, -30, 0], [-30, 7, 6], [0, 0, 5]]
    settings = {
        "gamma": 0.9, "hidden": [32], "lr": 1e-9, "critic_lr": 0.01, "batch_size": 64, "updates_per_round": 60,
        "buffer_size": 10_000, "tau": 0.1, "standardise_rewards": False,
    }  # fmt: skip
    task = EnvTask(name="matrix/climbing")
    _, tensors = trained_teams.train(task, "maddpg", settings, rounds=8, num_envs=64, seed=seed)
    pairs = np.eye(3, dtype=np.float32)[np.indices((3, 3)).reshape(2, 9)]
    seen = np.concatenate([np.ones((9, 1), np.float32), *pairs], axis=1)
    for group in ("g00", "g01"):
        critic = recurrent.weights_of(tensors, f"critic/{group}")
        found = critic.forward(seen).outputs.reshape(3, 3) + tensors[f"normaliser/{group}"][3]
        np.testing.assert_allclose(found, pays, atol=0.5)


@each_seed
@pytest.mark.parametrize(("game", "earned"), [("climbing", 5), slow(("penalty", 2))])
@pytest.mark.parametrize("name", ["iql", slow("vdn")])
def test_averaging_over_exploring_partner_misses_best(name, game, earned, seed):
    """Means over the partner's actions in climbing are -19/3, -17/3, 5/3 for the row player and -19/3, -23/3, 11/3 for
    the other. Both play the last action, which pays 5 of 11. In penalty they are -30, 2/3, -30, so both play the
    middle, 2 of 10. A sum of values has the same greatest entry: row mean plus column mean.
    """
    task = EnvTask(name=f"matrix/{game}")
    assert returned(task, learned(task, name, seed, rounds=6, num_envs=64)) == earned


@each_seed
@pytest.mark.parametrize("game", [slow("climbing"), "penalty"])
def test_monotonic_joint_value_misses_best(game, seed):
    """A monotonic value fails if the neighbours of the best pair are worse than their other neighbours."""
    task = EnvTask(name=f"matrix/{game}")
    assert returned(task, learned(task, "qmix", seed, rounds=6, num_envs=64)) < {"climbing": 11, "penalty": 10}[game]


@each_seed
@pytest.mark.parametrize(("time_limit", "going_on"), [("bootstrap", [7.29, 8.1, 9, 10]), ("terminal", [0.9, 0, 9, 10])])
def test_corridor_values_equal_hand_computation(time_limit, going_on, seed):
    """See `marless.functions.environments.corridor`: treating a time limit as terminal hides all after the first
    leg."""
    settings = {"batch_size": 128, "updates_per_round": 60, "gamma": 0.9, "hidden": [16]}
    found = values(CORRIDOR, "iql", 4, seed, reward="own", time_limit=time_limit, **settings)
    for agent in found:
        np.testing.assert_allclose(agent, np.stack([np.ones(4), going_on], axis=1), atol=0.1)


@pytest.mark.slow
@each_seed
@pytest.mark.parametrize(("time_limit", "walks"), [("bootstrap", [1, 1, 1]), ("terminal", [0, 1, 1])])
@pytest.mark.parametrize("name", [slow("vdn"), "qmix"])
def test_joint_value_walks_corridor_only_when_limits_truncate(name, time_limit, walks, seed):
    """Not compared in the first cell, where taking is worth 1 and, with terminal time limits, going on 0.9."""
    found = outputs(learned(CORRIDOR, name, seed, gamma=0.9, time_limit=time_limit), 4).argmax(axis=2)
    assert found[:, 1:].tolist() == [walks, walks]


ANSWERING = {**SMALL, "gamma": 0.9, "hidden": [16], "batch_size": 128, "buffer_size": 2000, "epsilon_steps": 1500}
HARD = {"masked": True, "elimination": True, "mixed": True}


SURPRISED = {"priority": 0.6, "priority_steps": 1500}  # surprising segments are replayed more often


@each_seed
@pytest.mark.parametrize(
    ("name", "options", "settings"),
    [
        ("qmix", HARD, {}),
        ("vdn", HARD, SURPRISED),
        *(slow((name, HARD, {})) for name in ("iql", "vdn")),
        *(slow((name, {}, {})) for name in ("iql", "vdn", "qmix")),
        *(slow((name, HARD, SURPRISED)) for name in ("iql", "qmix")),
    ],
)
def test_agents_with_decaying_exploration_answer_every_signal(name, options, settings, seed):
    """Two agents, five steps, a right answer each: the best return is 10."""
    task, settings = EnvTask(name="toy/signal", options=options), {**ANSWERING, **OWN[name], **settings}
    assert mean_return(task, trained_policy(task, name, settings, rounds=10, seed=seed)) == 10


@pytest.mark.slow
@each_seed
def test_agents_with_a_hidden_state_answer_every_signal(seed):
    task = EnvTask(name="toy/signal", options=HARD)
    settings = {**ANSWERING, **OWN["qmix"], "recurrent": True, "batch_size": 16}
    assert mean_return(task, trained_policy(task, "qmix", settings, rounds=10, seed=seed)) == 10


def mean_return(task, policy, episodes=64):
    found = play(registry.make(task, episodes), policy, np.random.default_rng(1), True, episodes)
    return found.agent_returns().sum(axis=1).mean()


# -- how they explore


@pytest.mark.parametrize("name", ["iql", "vdn", "qmix"])
def test_exploration_falls_linearly_then_stays(name):
    algorithm = algorithms.algorithm(name)
    config = algorithms.configuration(algorithm, {"epsilon_start": 0.9, "epsilon_end": 0.1, "epsilon_steps": 400})
    behaviours = [config.behaviour(steps) for steps in (0, 100, 200, 400, 10_000)]
    assert {behaviour.kind for behaviour in behaviours} == {"epsilon"}
    assert [behaviour.amount for behaviour in behaviours] == pytest.approx([0.9, 0.7, 0.5, 0.1, 0.1])


# -- learning data


@pytest.mark.parametrize(
    ("settings", "length", "batch"),
    [
        ({}, 1, 256),
        ({"sequence_length": 5}, 5, 51),  # 256 / 5
        ({"n_step": 3}, None, 10),  # rollouts of 25 steps: 256 / 25
        ({"recurrent": True}, None, 10),
        ({"recurrent": True, "sequence_length": 5, "n_step": 2}, 5, 51),
        ({"sequence_length": 100}, 100, 4),
        ({"batch_size": 7}, 1, 7),
        ({"n_step": 3, "batch_size": 300}, None, 300),
    ],
)
@pytest.mark.parametrize("name", ["iql", "vdn", "qmix"])
def test_minibatches_have_equal_steps_for_any_content(name, settings, length, batch):
    spec = registry.spec(EnvTask(name="mpe/simple_spread"))
    config = algorithms.configuration(algorithms.algorithm(name), settings).resolved(spec)
    assert (config.length, config.batch_size) == (length, batch)


@pytest.mark.parametrize(
    ("settings", "huber"),
    [
        ({}, None),
        ({"time_limit": "terminal"}, 1.0),
        ({"time_limit": "terminal", "huber_delta": 0.3}, 0.3),
        ({"huber_delta": 0.3}, 0.3),
    ],
)
@pytest.mark.parametrize("name", ["iql", "vdn", "maddpg", "iddpg"])
def test_terminal_limits_set_huber_delta(name, settings, huber):
    config = algorithms.configuration(algorithms.algorithm(name), settings)
    assert config.resolved(registry.spec(TWO_STEP)).huber_delta == huber


# -- refusals


REFUSED = {
    "more steps than a segment": (
        ["algorithm.n_step=3", "algorithm.sequence_length=1"],
        "n_step is 3, and a sequence has 1 steps; set a longer sequence_length or a lower algorithm.n_step",
    ),
    "more steps ahead than burn-in leaves": (
        ["algorithm.recurrent=true", "algorithm.sequence_length=5", "algorithm.burn_in=4", "algorithm.n_step=2"],
        "n_step is 2, and a sequence has 5 steps, 4 of them burn-in; set a longer sequence_length or a lower"
        " algorithm.n_step",
    ),
    "the default of StarCraft in a short segment": (
        ["task.name=smax/8m", "algorithm.sequence_length=10"],
        "n_step is 20, and a sequence has 10 steps; set a longer sequence_length or a lower algorithm.n_step",
    ),
    "n steps of a short segment": (
        ["algorithm.n_step=3", "algorithm.sequence_length=2"],
        "n_step is 3, and a sequence has 2 steps",
    ),
    "nothing but burn-in": (["algorithm.burn_in=1"], "burn_in is 1, and a sequence has 1 steps"),
    "nothing but burn-in, recurrent": (
        ["algorithm.recurrent=true", "algorithm.sequence_length=4", "algorithm.burn_in=4"],
        "burn_in is 4, and a sequence has 4 steps",
    ),
    "no replay": (["algorithm.buffer_size=0"], "algorithm.buffer_size: 0 is not a whole number of"),
    "no updates": (["algorithm.updates_per_round=0"], "algorithm.updates_per_round: 0 is not a whole number of"),
    "targets that never move": (["algorithm.tau=0"], "algorithm.tau: 0 is not a number above 0"),
    "an interval of no updates": (
        ["algorithm.target_update_interval=0"],
        "algorithm.target_update_interval: 0 is not a whole number of",
    ),
    "another time limit": (
        ["algorithm.time_limit=never"],
        "algorithm.time_limit: 'never' is not one of bootstrap, terminal",
    ),
    "negative priorities": (["algorithm.priority=-0.1"], "algorithm.priority: -0.1 is not a number of at least 0"),
    "priorities beyond proportion": (["algorithm.priority=1.5"], "algorithm.priority: 1.5 is not a number of at most"),
    "too much of a correction": (
        ["algorithm.priority_beta=2"],
        "algorithm.priority_beta: 2 is not a number of at most",
    ),
    "a correction that never comes": (
        ["algorithm.priority_steps=0"],
        "algorithm.priority_steps: 0 is not a whole number of",
    ),
    "priorities without values": (
        ["algorithm.name=maddpg", "algorithm.priority=1"],
        "a key of iql, vdn, qmix and qplex",
    ),
    "a setting of another algorithm": (
        ["algorithm.epochs=3"],
        "epochs is a key of ippo, mappo, happo, pqn and bc, not of vdn",
    ),
    "gradient noise": (
        ["scaling.rule=gns"],
        "scaling.rule=gns needs the gradient noise, which learners of vdn do not report; use constant",
    ),
    "teams that change": (
        ["sharing.rule=dynamic"],
        "sharing.rule: teams of vdn cannot change during a run; use none or all",
    ),
    "a replay buffer that travels": (
        ["placement.inline_objects=true"],
        "placement.inline_objects: vdn learns from earlier rounds",
    ),
}


@pytest.mark.parametrize("wrong", REFUSED)
def test_impossible_settings_are_refused_in_one_line(wrong):
    settings, message = REFUSED[wrong]
    with pytest.raises(ConfigError) as refused:
        load(None, ["algorithm.name=vdn", *settings])
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "settings",
    [
        ("algorithm.n_step=3", "algorithm.sequence_length=3"),
        ("algorithm.n_step=3", "algorithm.recurrent=true"),
        ("algorithm.n_step=3", "algorithm.sequence_length=5", "algorithm.burn_in=2"),
        ("algorithm.buffer_size=1",),
    ],
)
def test_settings_that_can_be_are_taken(settings):
    assert load(None, ["algorithm.name=qmix", *settings]).algorithm.replayed_steps >= 1


def initialised(name, spec, groups):
    task = make_task(InitialiseTask,
        id="i", run="r", round=0, output="i", timeout_s=1.0, seed=0, spec=spec, algorithm=name, hyperparameters={},
        team=Team(groups=groups, identity=True),
    )  # fmt: skip
    return msgspec.json.decode(learn(msgspec.json.encode(task), MemoryStorage()), type=Answer)


@pytest.mark.parametrize("name", ["iql", "vdn", "qmix"])
@pytest.mark.parametrize(
    ("kind", "what", "advice"),
    [
        (
            {"low": (-1.0, -1.0), "high": (1.0, 1.0), "actions": 2},
            "numbers",
            "use ippo, mappo, iddpg, maddpg, isac or masac",
        ),
        (
            {"branches": (3, 2), "actions": 5},
            "several choices at once",
            "use ippo or mappo, or with PettingZoo and RWARE task.options.joint_actions=true",
        ),
    ],
)
def test_agents_without_single_choice_are_refused_by_name(name, kind, what, advice):
    kinds = (AgentClass("one", (0,), 4, 3), AgentClass("other", (1,), 4, **kind))
    answer = initialised(name, EnvSpec(("a", "b"), kinds, horizon=5), (0, 1))
    assert isinstance(answer, Failed)
    assert (answer.kind, answer.again) == ("request", False)
    assert answer.message == f"b acts in {what}; the algorithm values single choices only: {advice}"


RIVALS = EnvSpec(("a", "b", "c"), (AgentClass("all", (0, 1, 2), 4, 3),), horizon=5, sides=(0, 1, 0))


@pytest.mark.parametrize("name", ["vdn", "qmix"])
def test_rivals_that_share_networks_have_no_joint_value(name):
    answer = initialised(name, RIVALS, (0, 0, 0))
    assert isinstance(answer, Failed) and not answer.again
    assert answer.message == "a, b, c share networks and are not on one side, so that they have no joint value"


@pytest.mark.parametrize(("name", "parts"), [("iql", [0, 1, 2]), ("vdn", [0, 1]), ("qmix", [0, 1])])
def test_parts_of_side_are_kept_by_first_group(name, parts):
    storage = MemoryStorage()
    task = make_task(InitialiseTask,
        id="i", run="r", round=0, output="i", timeout_s=1.0, seed=0, spec=RIVALS, algorithm=name, hyperparameters={},
        team=Team(groups=(0, 1, 2)),
    )  # fmt: skip
    made = set()
    for ref in invoke_learner(task, storage).objects.values():
        made |= {" ".join(key.split("/")[:2]) for key in codec.decode(storage[ref.key], ref.key)}
    for part in ("normaliser", "mixer", "mixer_target", "mixer_optimiser"):
        expected = parts if part == "normaliser" or name == "qmix" else []
        assert {name for name in made if name.startswith(f"{part} ")} == {f"{part} g{group:02d}" for group in expected}
    for part in ("policy", "policy_optimiser", "target"):
        assert {name for name in made if name.startswith(f"{part} ")} == {f"{part} g{group:02d}" for group in (0, 1, 2)}
