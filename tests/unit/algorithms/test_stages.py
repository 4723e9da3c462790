"""The stages, run one by one, equal one plain computation by automatic differentiation. Their placement changes no
byte."""

import dataclasses
import types

import msgspec
import numpy as np
import pytest
from plain_ppo import Group
from synthetic import one_by_one, through_storage

from marless.functions import codec
from marless.functions.actor.rollout import collect
from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.minibatches import Independent
from marless.functions.algorithms.specification import Share
from marless.functions.algorithms.stage import Context, SummaryResult
from marless.functions.algorithms.trainable import minibatches
from marless.functions.data import batch
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.errors import NotFinite
from marless.functions.keys import REWARD_SUMS
from marless.functions.learner import stages
from marless.functions.messages.team import Team
from marless.functions.policies import Policy

SEED, ROLLOUTS, STEPS, NUM_ENVS = 5, (2, 3), 7, 12
OPTIONS = {"masked": True, "elimination": True, "horizon": 3}  # a rollout of 7 steps ends within an episode
SEPARATE = (EnvTask(name="toy/signal", agents=3, options={**OPTIONS, "mixed": True}), Team(groups=(0, 1, 2)))
SHARED = (EnvTask(name="toy/signal", agents=3, options=OPTIONS), Team(groups=(0, 0, 0), identity=True))
TEAMS = pytest.mark.parametrize(("task", "team"), [SEPARATE, SHARED], ids=["separate", "shared"])
ALGORITHMS = pytest.mark.parametrize("name", ["mappo", "ippo"])
# Tight enough that every clip and cap binds somewhere.
SETTINGS = {
    "lr": 0.01, "clip_coef": 0.05, "value_clip": 0.1, "huber_delta": 0.7, "max_grad_norm": 0.4, "ent_coef": 0.02,
    "epochs": 3, "num_minibatches": 4, "hidden": [16, 12], "value_decay": 0.9,
}  # fmt: skip


def scene(name, task, team, num_envs=NUM_ENVS):
    """The algorithm, its configuration, the first round's tensors and the rollouts that its policies sampled."""
    spec, algorithm = registry.spec(task), algorithms.algorithm(name)
    config = algorithms.configuration(algorithm, SETTINGS).resolved(spec)
    code, state, rollouts = algorithms.implementation(algorithm), {}, {}
    for group in sorted(set(team.groups)):
        state |= code.initialise(spec, team, config, SEED, group)
    for rollout in ROLLOUTS:
        environment = registry.make(task, num_envs)
        rollouts |= collect(environment, Policy(spec, team, state), STEPS, SEED, 0, rollout).tensors
    return Context(spec, team, config, SEED, 0, batch.join(spec, rollouts, ROLLOUTS), state), algorithm, rollouts


def in_double(tensors):
    return {name: array.astype(np.float64) if array.dtype == np.float32 else array for name, array in tensors.items()}


@ALGORITHMS
@TEAMS
def test_updates_are_those_of_one_plain_computation(name, task, team):
    context, algorithm, rollouts = scene(name, task, team, num_envs=4)
    joined = batch.join(context.spec, in_double(rollouts), ROLLOUTS)
    context = dataclasses.replace(context, batch=joined, tensors=in_double(context.tensors))
    groups = [Group(context, algorithm, group) for group in sorted(set(team.groups))]
    for number in (0, 1):  # the second round starts from moments and a normaliser that are not empty
        context = dataclasses.replace(context, round=number)
        made, metrics = one_by_one(context, algorithm)
        for group in groups:
            group.round(number)
            group.compare(made)
        context = dataclasses.replace(context, tensors={**context.tensors, **made})
    assert {key for group in groups for key in group.tensors()} == {
        key for key in made if key.split("/")[0] in algorithm.parts and "steps" not in key
    }
    for group in groups:  # the cases that could hide an error occur
        assert metrics[f"policy/clip_fraction/g{group.group:02d}"] > 0.1
        assert group.policy.capped + group.critic.capped > 0
        assert int(made[f"policy_optimiser/g{group.group:02d}/steps"][0]) == 2 * 3 * 4
    assert any(group.value_clipped for group in groups)


@TEAMS
def test_synthetic_round_has_every_row_end(task, team):
    joined = scene("mappo", task, team)[0].batch
    assert not joined.alive.all()  # agents that died before their team
    assert (joined.terminated & ~joined.ended).any()
    assert (joined.terminated & joined.ended).any()
    assert (joined.ended[joined.cut[:, 0], joined.cut[:, 1]]).any()  # truncations
    assert (~joined.ended[-1]).any()  # the rollout's end within an episode
    assert not all(masks.all() for masks in joined.masks)


@ALGORITHMS
@TEAMS
def test_placement_of_algorithm_stages_changes_no_byte(name, task, team):
    context, algorithm, _ = scene(name, task, team)
    code, groups = algorithms.implementation(algorithm), sorted(set(team.groups))
    everything = [stage.name for stage in algorithm.stages]
    packed, metrics, _ = stages.run(algorithm, code, context, Share(everything, groups))

    split, split_figures = one_by_one(context, algorithm, through_storage)
    fused = {}
    for group in reversed(groups):
        fused |= stages.run(algorithm, code, context, Share(everything, [group]))[0]
    assert split_figures == metrics
    for other in (split, fused):
        assert codec.tensors_sha256(other) == codec.tensors_sha256(packed)
    assert {packed[f"{part}/g00/w0"].dtype for part in ("policy", "critic")} == {np.dtype(np.float32)}


def test_stage_leaves_its_inputs_unchanged():
    context, algorithm, _ = scene("mappo", *SEPARATE)
    before = codec.tensors_sha256(context.tensors)
    one_by_one(context, algorithm)
    assert codec.tensors_sha256(context.tensors) == before


def test_unequal_minibatches_cover_every_row_once():
    context, _, _ = scene("ippo", *SEPARATE)
    inputs = np.arange(10.0)[:, None]
    found = [(part.rows, part.inputs) for part in minibatches(Independent(inputs), context, "policy", 0)]
    assert [len(rows) for rows, _ in found] == 3 * [2, 3, 2, 3]  # bounds 0, 2.5, 5, 7.5, 10, rounded down
    for epoch in range(3):
        rows = np.concatenate([rows for rows, _ in found[4 * epoch : 4 * epoch + 4]])
        np.testing.assert_array_equal(np.sort(rows), np.arange(10))
    for rows, x in found:
        np.testing.assert_array_equal(inputs[rows], x)


def test_too_few_rows_become_single_row_minibatches():
    context, algorithm, _ = scene("mappo", *SEPARATE)
    many = msgspec.structs.replace(context.config, num_minibatches=10_000)
    made, metrics = one_by_one(dataclasses.replace(context, config=many), algorithm)
    rows = int(context.batch.alive[1].sum())
    assert int(made["critic_optimiser/g01/steps"][0]) == 3 * rows
    assert np.isfinite(list(metrics.values())).all()


def test_number_that_is_not_finite_is_not_published():
    context, algorithm, _ = scene("mappo", *SEPARATE)
    broken = {**context.tensors, "critic/g01/b2": np.array([np.nan], np.float32)}
    with pytest.raises(NotFinite, match=r"stage postprocess, group 1: advantage/g01 holds NaN or infinity"):
        one_by_one(dataclasses.replace(context, tensors=broken), algorithm)


def test_step_size_shrinks_for_larger_teams_by_default():
    config = msgspec.convert({"name": "mappo"}, algorithms.algorithm("mappo").config)
    teams = [registry.spec(EnvTask(name="toy/signal", agents=agents)) for agents in (2, 5, 6)]
    assert [config.resolved(team).lr for team in teams] == [1e-3, 1e-3, 7e-4]
    given = msgspec.structs.replace(config, lr=0.5, gamma=0.9)
    assert given.resolved(teams[-1]) == given


def all_summaries(context, algorithm, names, groups=None):
    code, stage_names = algorithms.implementation(algorithm), [stage.name for stage in algorithm.stages]
    share = Share(stage_names, groups or sorted(set(context.team.groups)))
    return stages.run(algorithm, code, context, share, names)


@ALGORITHMS
@TEAMS
def test_reports_of_policies_change_no_trained_byte(name, task, team):
    context, algorithm, _ = scene(name, task, team)
    silent, report = (all_summaries(context, algorithm, names) for names in ((), algorithm.summaries))
    trained = {name: array for name, array in report.tensors.items() if REWARD_SUMS not in name}
    assert codec.tensors_sha256(trained) == codec.tensors_sha256(silent.tensors)
    assert silent.tables == {}
    assert silent.metrics.items() <= report.metrics.items()


@TEAMS
def test_report_is_independent_of_group_placement(task, team):
    context, algorithm, _ = scene("mappo", task, team)
    packed, metrics, tables = all_summaries(context, algorithm, algorithm.summaries), {}, {}
    for group in sorted(set(team.groups)):
        alone = all_summaries(context, algorithm, algorithm.summaries, [group])
        metrics |= alone.metrics
        tables |= alone.tables
    assert (metrics, tables) == (packed.metrics, packed.tables)


def test_metrics_are_named_by_summary_group_and_agent():
    context, algorithm, _ = scene("mappo", *SHARED)
    report = all_summaries(context, algorithm, ("behaviour", "curvature"))
    assert sorted(report.tables) == ["behaviour/a00", "behaviour/a01", "behaviour/a02"]
    assert sorted(name for name in report.metrics if name.startswith("curvature")) == [
        "curvature/largest/g00",
        "curvature/smallest/g00",
    ]


def test_only_training_stage_reports_of_policies():
    context, algorithm, _ = scene("mappo", *SEPARATE)
    code = algorithms.implementation(algorithm)
    first = stages.run(algorithm, code, context, Share(["postprocess", "critic"], [0]), algorithm.summaries)
    assert first.tables == {}
    later = dataclasses.replace(context, tensors={**context.tensors, **first.tensors})
    assert stages.run(algorithm, code, later, Share(["policy"], [0]), algorithm.summaries).tables


def test_summary_sees_incoming_weights_and_stage_results():
    context, algorithm, _ = scene("mappo", *SEPARATE)
    calls = []

    def watch(before, after, group):
        calls.append((before, after, group))
        return SummaryResult({}, {})

    code = types.SimpleNamespace(STAGES=algorithms.implementation(algorithm).STAGES, SUMMARIES={"noise": watch})
    made = stages.run(algorithm, code, context, Share(["postprocess", "critic", "policy"], [2]), ["noise"]).tensors
    ((before, after, group),) = calls
    assert group == 2
    assert {name.split("/")[0] for name in after} == {"policy", "policy_optimiser"}
    np.testing.assert_array_equal(before.tensors["policy/g02/w0"], context.tensors["policy/g02/w0"])
    np.testing.assert_array_equal(after["policy/g02/w0"], made["policy/g02/w0"])
    np.testing.assert_array_equal(before.tensors["advantage/g02"], made["advantage/g02"])


@pytest.mark.parametrize(
    ("result", "name"), [(SummaryResult({"trace": np.inf}, {}), "trace"), (SummaryResult({}, {1: [np.nan]}), "a01")]
)
def test_what_is_reported_must_be_numbers(result, name):
    context, algorithm, _ = scene("mappo", *SEPARATE)
    tables = {agent: np.array(values) for agent, values in result.tables.items()}
    code = types.SimpleNamespace(
        STAGES=algorithms.implementation(algorithm).STAGES,
        SUMMARIES={"noise": lambda before, after, group: result._replace(tables=tables)},
    )
    with pytest.raises(NotFinite, match=f"summary noise, group 1: {name} holds NaN or infinity"):
        stages.run(algorithm, code, context, Share(["postprocess", "policy"], [1]), ["noise"])
