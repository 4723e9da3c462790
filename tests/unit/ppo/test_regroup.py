"""Splits copy networks, merges follow the design, and distillation makes one network act as several did."""

import functools
import itertools

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax
from simulated import ReadStorage
from task_fields import make_task

from marless.functions import codec
from marless.functions.actor.rollout import collect
from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.ppo import merge
from marless.functions.algorithms.specification import Share
from marless.functions.algorithms.stage import Context
from marless.functions.data import batch
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask, Observation
from marless.functions.errors import BadRequest, NotFinite
from marless.functions.learner import stages
from marless.functions.learner.regroup import regroup
from marless.functions.messages.exchange import Answer, Origin, TaskHeader
from marless.functions.messages.learner import RegroupTask
from marless.functions.messages.team import Team
from marless.functions.nn.normaliser import Normaliser
from marless.functions.nn.recurrent import views, weights_of
from marless.functions.nn.shape import Network
from marless.functions.policies import Policy
from marless.functions.randomness import generator
from marless.functions.serving import serve

TOY = EnvTask(name="toy/signal", agents=4, options={"masked": True, "elimination": True, "horizon": 3})
MIXED = EnvTask(name="toy/signal", agents=4, options={"mixed": True})
SPEC = registry.spec(TOY)
SEED, ROUND, ROLLOUTS, STEPS, NUM_ENVS = 5, 1, (0, 1), 7, 12
OLD = Team(groups=(0, 1, 1, 3), identity=True)
ALONE = Team(groups=(0, 1, 2, 3), identity=True)
MERGED = Team(groups=(0, 1, 0, 0), identity=True)  # agent 2 leaves group 1 and joins agents 0 and 3
BASES = {0: 1, 1: 1}
SETTINGS = {"lr": 0.01, "hidden": [16, 12], "value_decay": 0.9, "gamma": 0.8, "gae_lambda": 0.0}
ALGORITHMS = pytest.mark.parametrize("name", ["mappo", "ippo"])


class Memory(ReadStorage):
    def keep(self, key, tensors, round_=ROUND):
        self[key] = codec.encode(tensors, TaskHeader(task="before", origins=(Origin(round=round_),)))
        return codec.reference(key, self[key])


def wide_apart(tensors, seed):
    """The tensors with policies that differ. Initial ones give nearly the same outputs."""
    rng = np.random.default_rng(seed)
    last = {key for key in tensors if key.startswith("policy/") and key.endswith("w2")}
    return {
        key: rng.normal(size=array.shape).astype(np.float32) if key in last else array for key, array in tensors.items()
    }


@functools.cache
def before(name):
    """The networks that sampled the round, its trajectories, and the learner's state after it."""
    algorithm = algorithms.algorithm(name)
    config = algorithms.configuration(algorithm, SETTINGS).resolved(SPEC)
    code, first, rollouts = algorithms.implementation(algorithm), {}, {}
    for group in sorted(set(OLD.groups)):
        first |= code.initialise(SPEC, OLD, config, SEED, group)
    first = wide_apart(first, 7)
    for rollout in ROLLOUTS:
        environment = registry.make(TOY, NUM_ENVS)
        rollouts |= collect(environment, Policy(SPEC, OLD, first), STEPS, SEED, ROUND, rollout).tensors
    context = Context(SPEC, OLD, config, SEED, ROUND, batch.join(SPEC, rollouts, ROLLOUTS), first)
    everything = [stage.name for stage in algorithm.stages]
    state = {**first, **stages.run(algorithm, code, context, Share(everything, (0, 1, 3))).tensors}
    state = {key: array for key, array in state.items() if key.split("/")[0] in algorithm.parts}
    state = wide_apart(state, 8)
    for group, scale in ((0, 0.4), (1, 2.0), (3, 1.0)):
        state[f"normaliser/g{group:02d}"] = 0.19 * np.array([group, group**2 + scale**2, 1.0])
    policies = {key: array for key, array in first.items() if key.startswith("policy/")}
    return policies, rollouts, state


def scene(name, state=None, rollouts=None, **fields):
    """A store with the round's objects, and the task that makes the team `MERGED` of the team `OLD`."""
    memory = Memory()
    policies, played, learned = before(name)
    state = learned if state is None else state
    halves = [{k: v for k, v in state.items() if k.startswith("policy/") is own} for own in (True, False)]
    values = {
        "id": "run/000001/regroup", "run": "run", "round": ROUND, "output": "o", "timeout_s": 9.0, "seed": SEED,
        "environment": TOY, "spec": SPEC, "algorithm": name, "hyperparameters": SETTINGS, "team": OLD,
        "target": MERGED, "bases": BASES, "rollouts": ROLLOUTS, "num_envs": NUM_ENVS, "rollout_length": STEPS,
        "trajectories": (memory.keep("trajectory", rollouts or played, fields.get("round", ROUND)),),
        "policies": (memory.keep("first", policies),),
        "state": (memory.keep("policies", halves[0]), memory.keep("learner", halves[1])),
    }  # fmt: skip
    return memory, make_task(RegroupTask, **{**values, **fields})


def made(memory, task):
    objects, reply = regroup(task, memory)
    assert [output.kind for output in objects] == ["policies", "learner"]
    policies, learner = (output.tensors for output in objects)
    assert all(key.startswith("policy/") for key in policies)
    assert not any(key.startswith("policy/") for key in learner)
    return {**policies, **learner}, reply.metrics


def same_bytes(one, other):
    return codec.tensors_sha256(one) == codec.tensors_sha256(other)


def of_group(tensors, group, parts=None):
    found = {}
    for key, array in tensors.items():
        part, named, *rest = key.split("/")
        if named == f"g{group:02d}" and (parts is None or part in parts):
            found["/".join([part, *rest])] = array
    return found


def legal_divergence(new, state, rollouts):
    """Mean KL from each member's old policy to the merged one on its own living rows, by the actors' code."""
    policies = [Policy(SPEC, team, tensors) for team, tensors in ((OLD, state), (MERGED, {**state, **new}))]
    kls, same = [], []
    for rollout in ROLLOUTS:
        tensors = {key[7:]: array for key, array in rollouts.items() if key.startswith(f"u{rollout:05d}")}
        rows = STEPS * NUM_ENVS
        seen = Observation(
            values=(tensors["observation/0"].reshape(4, rows, -1).swapaxes(0, 1),),
            alive=tensors["alive"].reshape(4, rows).T,
            masks=(tensors["mask/0"].reshape(4, rows, -1).swapaxes(0, 1),),
        )
        old, now = (log_softmax(policy.logits(seen)[0].astype(np.float64), axis=-1) for policy in policies)
        for agent in (0, 2, 3):
            alive = seen.alive[:, agent]
            kls.append((np.exp(old[agent]) * (old[agent] - now[agent])).sum(-1)[alive])
            same.append((old[agent].argmax(-1) == now[agent].argmax(-1))[alive])
    return np.concatenate(kls).mean(), np.concatenate(same).mean()


# Splits


@ALGORITHMS
def test_split_is_byte_exact_copy_without_data(name):
    memory, task = scene(name, target=ALONE, bases={1: 1, 2: 1}, environment=EnvTask(name="there/is-none"))
    del memory["trajectory"], memory["first"]
    state, found = before(name)[2], made(memory, task)
    assert found[1] == {}
    for group in (1, 2):
        assert of_group(found[0], group).keys() == of_group(state, 1).keys()
        assert same_bytes(of_group(found[0], group), of_group(state, 1))
    assert {key.split("/")[1] for key in found[0]} == {"g01", "g02"}
    assert sorted(memory.asked) == ["learner", "policies"]


def test_split_within_merging_task_is_same_copy():
    found, _ = made(*scene("mappo", distil_steps=3))
    assert same_bytes(of_group(found, 1), of_group(before("mappo")[2], 1))
    assert {key.split("/")[1] for key in found} == {"g00", "g01"}


# Merges


@ALGORITHMS
def test_merge_keeps_bytes_of_base_policy_and_moments(name):
    state = before(name)[2]
    found, metrics = made(*scene(name))
    kept = ("policy", "policy_optimiser", "critic_optimiser")
    assert same_bytes(of_group(found, 0, kept), of_group(state, 1, kept))
    assert of_group(found, 0).keys() == of_group(state, 1).keys()
    assert metrics == {}
    assert all(found[key].dtype == state[key].dtype for key in state if "/g00" in key)


@ALGORITHMS
def test_lessons_leave_the_moments_those_of_the_base(name):
    found, _ = made(*scene(name, distil_steps=2))
    moments = ("policy_optimiser", "critic_optimiser")
    assert same_bytes(of_group(found, 0, moments), of_group(before(name)[2], 1, moments))
    assert not same_bytes(of_group(found, 0, ("policy",)), of_group(before(name)[2], 1, ("policy",)))


def with_constant_critics(name, values):
    """The state with critics that return `values[group]`, in normalised units, for every observation."""
    state = dict(before(name)[2])
    for key in state:
        if key.startswith("critic/"):
            state[key] = np.zeros_like(state[key])
    for group, value in values.items():
        state[f"critic/g{group:02d}/b2"] = np.full(1, value, np.float32)
    return state


def targets_by_hand(rollouts, agent, value):
    """With gae_lambda 0 and a critic that returns `value`: r + 0.8 value, or r where the agent's episode is over."""
    found = []
    for rollout in ROLLOUTS:
        reward, over, alive = (rollouts[f"u{rollout:05d}/{key}"][agent] for key in ("reward", "terminated", "alive"))
        found += [r + 0.8 * value * (not o) for r, o, a in zip(reward.flat, over.flat, alive.flat, strict=True) if a]
    return found


@ALGORITHMS
def test_a_merged_normaliser_is_of_all_members_targets(name):
    rollouts = before(name)[1]
    found, _ = made(*scene(name, with_constant_critics(name, {0: 0.5, 1: -1.5, 3: 2.0})))
    # values of the returns: centre + scale * critic. See `before` for centres and scales
    values = {0: 0 + 0.4 * 0.5, 2: 1 + 2.0 * -1.5, 3: 3 + 1.0 * 2.0}
    pooled = np.concatenate([targets_by_hand(rollouts, agent, value) for agent, value in values.items()])
    assert len(pooled) < 3 * len(ROLLOUTS) * STEPS * NUM_ENVS  # some rows belong to dead agents
    expected = [0.19 * pooled.mean(), 0.19 * (pooled**2).mean(), 0.19]
    np.testing.assert_allclose(found["normaliser/g00"], expected, rtol=1e-6)
    assert found["normaliser/g00"].dtype == np.float64


def test_merged_normaliser_is_independent_of_member_order():
    rollouts, state = dict(before("mappo")[1]), with_constant_critics("mappo", {0: 0.5, 1: -1.5, 3: 2.0})
    expected, _ = made(*scene("mappo", state))
    for rollout, key in itertools.product(ROLLOUTS, ("reward", "terminated", "alive")):
        rollouts[f"u{rollout:05d}/{key}"] = rollouts[f"u{rollout:05d}/{key}"][[3, 1, 2, 0]]
    swapped = {
        key.replace("g00", "gxx").replace("g03", "g00").replace("gxx", "g03"): array for key, array in state.items()
    }
    found, _ = made(*scene("mappo", swapped, rollouts))
    np.testing.assert_allclose(found["normaliser/g00"], expected["normaliser/g00"], rtol=1e-6)


@ALGORITHMS
def test_merge_changes_no_prediction_of_base_critic(name):
    state = before(name)[2]
    found, _ = made(*scene(name))
    old, new = (Normaliser(*tensors[key].tolist()) for tensors, key in (
        (state, "normaliser/g01"), (found, "normaliser/g00"),
    ))  # fmt: skip
    assert abs(new.scale / old.scale - 1) > 0.2  # so that an unchanged critic would fail the test
    assert abs(new.centre - old.centre) > 0.1
    inputs = np.random.default_rng(0).normal(size=(50, state["critic/g01/w0"].shape[0]))
    predictions = [
        normaliser.denormalise(weights_of(tensors, p).forward(inputs).outputs)
        for normaliser, tensors, p in ((old, state, "critic/g01"), (new, found, "critic/g00"))
    ]
    np.testing.assert_allclose(*predictions, rtol=0, atol=1e-6 * np.abs(predictions[0]).max())


@given(
    st.tuples(st.floats(-50, 50), st.floats(0, 100), st.floats(0.01, 1)),
    st.tuples(st.floats(-50, 50), st.floats(0, 100), st.floats(0.01, 1)),
)
def test_scaling_keeps_predictions_for_any_two_normalisers(before_, after_):
    before_, after_ = (Normaliser(w * m, w * (m * m + s * s), w) for m, s, w in (before_, after_))
    network, rng = Network((3, 4, 1)), np.random.default_rng(1)
    flat, inputs = rng.normal(size=network.parameters), rng.normal(size=(9, 3))
    expected = before_.denormalise(views(network, flat).forward(inputs).outputs)
    merge.preserve(network, flat, before_, after_)
    np.testing.assert_allclose(after_.denormalise(views(network, flat).forward(inputs).outputs), expected, atol=1e-10)


def test_early_merge_leaves_normaliser_and_critic():
    state = {**before("ippo")[2], "normaliser/g01": np.zeros(3)}
    found, _ = made(*scene("ippo", state))
    parts = ("normaliser", "critic")
    assert same_bytes(of_group(found, 0, parts), of_group(state, 1, parts))


# Lessons


@ALGORITHMS
def test_lessons_make_merged_policy_act_like_members(name):
    _, rollouts, state = before(name)
    apart, _ = legal_divergence(made(*scene(name))[0], state, rollouts)
    found, metrics = made(*scene(name, distil_steps=600))
    together, agreeing = legal_divergence(found, state, rollouts)
    assert metrics["distil_kl_before/g00"] == pytest.approx(apart, rel=1e-4)
    assert metrics["distil_kl_after/g00"] == pytest.approx(together, rel=1e-3, abs=1e-6)
    assert apart > 0.1
    # The task shows three different observations, so one network can be all three policies. By Pinsker's inequality
    # the total variation is then at most 0.7 % (root mean square).
    assert together < 1e-4
    assert agreeing > 0.99


@ALGORITHMS
def test_lessons_make_merged_critic_predict_like_members(name):
    _, rollouts, state = before(name)
    joined = batch.join(SPEC, rollouts, ROLLOUTS)

    def predicted(tensors, group, agent):
        inputs = joined.state if name == "mappo" else joined.observations[0][agent]
        inputs = np.concatenate([inputs, np.broadcast_to(np.eye(4)[agent], (*inputs.shape[:2], 4))], axis=-1)
        weights = weights_of(tensors, f"critic/g{group:02d}")
        outputs = weights.forward(inputs.reshape(-1, inputs.shape[-1])).outputs[:, 0]
        return Normaliser(*tensors[f"normaliser/g{group:02d}"].tolist()).denormalise(outputs)

    def mistake(tensors):
        errors = [
            (predicted(tensors, 0, agent) - predicted(state, OLD.groups[agent], agent))[joined.alive[agent].ravel()]
            for agent in (0, 2, 3)
        ]
        return float(np.sqrt(np.mean(np.concatenate(errors) ** 2)))

    untaught, teacher = (mistake(made(*scene(name, distil_steps=steps))[0]) for steps in (0, 600))
    assert untaught > 1
    assert teacher < 0.1 * untaught


def test_rows_of_dead_members_teach_nothing():
    rollouts = {key: array.copy() for key, array in before("ippo")[1].items()}
    for rollout in ROLLOUTS:
        dead = ~rollouts[f"u{rollout:05d}/alive"]
        assert dead[[0, 2, 3]].any()
        rollouts[f"u{rollout:05d}/observation/0"][dead] = 99
        rollouts[f"u{rollout:05d}/mask/0"][dead] = False
    expected, metrics = made(*scene("ippo", distil_steps=3))
    found, report = made(*scene("ippo", rollouts=rollouts, distil_steps=3))
    assert same_bytes(found, expected)
    assert report == metrics


def test_agents_outside_the_new_group_teach_nothing():
    rollouts = {key: array.copy() for key, array in before("ippo")[1].items()}
    for rollout in ROLLOUTS:
        rollouts[f"u{rollout:05d}/observation/0"][1] = 99
    assert same_bytes(
        made(*scene("ippo", rollouts=rollouts, distil_steps=3))[0], made(*scene("ippo", distil_steps=3))[0]
    )


# The same bytes by every path


@ALGORITHMS
def test_replayed_round_gives_bytes_of_its_trajectories(name):
    expected, metrics = made(*scene(name, distil_steps=3))
    memory, task = scene(name, distil_steps=3, trajectories=())
    found, report = made(memory, task)
    assert same_bytes(found, expected)
    assert report == metrics
    assert "trajectory" not in memory.asked
    assert "first" in memory.asked


def test_order_of_bases_and_objects_changes_no_byte():
    memory, task = scene("mappo", distil_steps=3)
    turned = msgspec.structs.replace(task, state=task.state[::-1], bases=dict(reversed(BASES.items())))
    assert same_bytes(made(memory, turned)[0], made(memory, task)[0])


def test_other_seeds_and_rounds_take_other_rows():
    of = [made(*scene("ippo", distil_steps=3, **fields))[0] for fields in ({}, {"seed": 6}, {"round": 2})]
    assert len({codec.tensors_sha256(of_group(tensors, 0)) for tensors in of}) == 3


def test_every_group_has_own_figures_and_address(monkeypatch):
    addresses = []
    monkeypatch.setattr(merge, "generator", lambda *address: addresses.append(address) or generator(*address))
    target = Team(groups=(0, 0, 2, 2), identity=True)
    _, metrics = made(*scene("ippo", target=target, bases={0: 1, 2: 1}, distil_steps=3))
    assert addresses == [(SEED, ROUND, "distil", 0), (SEED, ROUND, "distil", 2)]
    assert set(metrics) == {f"distil_kl_{when}/{group}" for when in ("before", "after") for group in ("g00", "g02")}


@ALGORITHMS
def test_the_new_team_goes_on_playing_and_learning(name):
    state = before(name)[2]
    state = {**state, **made(*scene(name))[0]}
    algorithm = algorithms.algorithm(name)
    code, config = algorithms.implementation(algorithm), algorithms.configuration(algorithm, SETTINGS).resolved(SPEC)
    rollouts = collect(registry.make(TOY, 4), Policy(SPEC, MERGED, state), 5, SEED, 2, 0).tensors
    context = Context(SPEC, MERGED, config, SEED, 2, batch.join(SPEC, rollouts, (0,)), state)
    after = stages.run(algorithm, code, context, Share([s.name for s in algorithm.stages], (0, 1))).tensors
    steps = "policy_optimiser/g00/steps"
    assert int(after[steps][0]) > int(state[steps][0]) > 0


def test_the_task_and_its_answer_survive_the_wire():
    memory, task = scene("mappo", distil_steps=2)
    expected, metrics = made(memory, task)
    body = serve(msgspec.json.encode(task), memory, {RegroupTask: regroup})
    done = msgspec.json.decode(body, type=Answer)
    assert done.reply.metrics == metrics
    stored = {}
    for kind in ("policies", "learner"):
        stored |= codec.decode(memory.get(done.objects[kind].key), kind)
    assert same_bytes(stored, expected)


# Refusals

REFUSALS = {
    "identity": ({"team": Team(groups=OLD.groups), "target": Team(groups=MERGED.groups)}, "take the agent's identity"),
    "classes": ({"environment": MIXED, "spec": registry.spec(MIXED), "team": ALONE, "target": Team(
        groups=(0, 0, 2, 3), identity=True), "bases": {0: 0}}, "group g00 has agents of several classes"),
    "name": ({"target": Team(groups=(2, 1, 2, 2), identity=True), "bases": {2: 1, 1: 1}},
        "group g02 is no group of the new team, named"),
    "unknown": ({"bases": {**BASES, 7: 1}}, "group g07 is no group of the new team"),
    "base": ({"bases": {0: 1, 1: 3}}, "group g01 has the base g03, which none of its members was in"),
    "no base": ({"bases": {1: 1}}, "group g00 is new and has no base"),
    "agents": ({"target": Team(groups=(0, 0), identity=True)}, "the task has 4 agents"),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "message"), REFUSALS.values(), ids=REFUSALS)
def test_impossible_regrouping_is_refused_in_one_line(fields, message):
    memory, task = scene("mappo", **fields)
    with pytest.raises(BadRequest, match=message) as caught:
        regroup(task, memory)
    assert "\n" not in str(caught.value)


def test_a_part_that_the_state_lacks_is_named():
    state = {key: array for key, array in before("mappo")[2].items() if not key.startswith("critic/g03")}
    with pytest.raises(BadRequest, match="the task's state holds no critic/g03"):
        regroup(scene("mappo", state)[1], scene("mappo", state)[0])


def test_regrouping_number_not_finite_is_not_published():
    state = {**before("mappo")[2], "critic/g03/b2": np.array([np.nan], np.float32)}
    with pytest.raises(NotFinite, match="regrouping: critic/g00"):
        made(*scene("mappo", state))
