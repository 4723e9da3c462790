"""PPO from sums over parts of a round: against the whole round at once, in any order of arrival, part by part."""

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from synthetic import rollout_of, spec, through_storage

from marless.functions import codec
from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.engine import weights_of
from marless.functions.algorithms.group_inputs import learned_from, observations, share, starts
from marless.functions.algorithms.specification import Share
from marless.functions.algorithms.stage import Context
from marless.functions.data import batch
from marless.functions.data.trajectory import rollout_prefix
from marless.functions.errors import BadRequest
from marless.functions.keys import group_name
from marless.functions.learner import stages
from marless.functions.learner.partial_sums import folding, make_sums, micro_batches
from marless.functions.messages.team import Team
from marless.functions.nn.heads import distribution
from marless.functions.nn.losses import mask_logits
from marless.functions.nn.networks import unroll

ROLLOUTS, STEPS, NUM_ENVS = 5, 9, 3
SETTINGS = {"hidden": [12, 8], "epochs": 1, "num_minibatches": 1, "lr": 0.01, "max_grad_norm": 0.3, "ent_coef": 0.02}
TEAM = Team(groups=(0, 1, 0), identity=True)
GROUPS = [0, 1]


class Round:
    """A round of synthetic rollouts with the log-probabilities of the incoming policies."""

    def __init__(self, name="mappo", task="one choice", rows="pooled", precision=np.float64, **settings):
        masked = task == "one choice"
        self.spec, self.algorithm = spec(task, masked=masked), algorithms.algorithm(name)
        self.code = algorithms.implementation(self.algorithm)
        config = algorithms.configuration(self.algorithm, {**SETTINGS, **settings}).resolved(self.spec)
        rng, state = np.random.default_rng(7), {}
        for group in GROUPS:
            state |= self.code.initialise(self.spec, TEAM, config, 3, group)
            # After many rounds one more hardly moves a normaliser.
            state[f"normaliser/{group_name(group)}"] = 1e13 * np.array([0.7, 2.0, 1.0])
        state = {key: array.astype(precision) if array.dtype == np.float32 else array for key, array in state.items()}
        self.trajectories = {
            f"{rollout_prefix(rollout)}/{key}": array
            for rollout in range(ROLLOUTS)
            for key, array in rollout_of(self.spec, rng, STEPS, NUM_ENVS, precision).items()
        }
        self.context = Context(self.spec, TEAM, config, 3, 0, self.joined(range(ROLLOUTS)), state, rows=rows)
        for agent in range(3):
            self._report(agent)
        self.context = replace(self.context, batch=self.joined(range(ROLLOUTS)))

    def joined(self, rollouts):
        return batch.join(self.spec, self.trajectories, rollouts)

    def _report(self, agent):
        """Writes the log-probabilities of the agent's actions into the trajectories."""
        context = self.context
        weights = weights_of(context, f"policy/{group_name(TEAM.groups[agent])}")
        index, at = context.batch.place(agent)
        outputs, _ = unroll(weights, observations(context, agent), starts(context))
        masks = context.batch.masks
        outputs = mask_logits(outputs, None if masks is None else context.batch.of(masks, agent))
        head = distribution(self.spec.classes[index])
        every = head.log_probability(outputs, weights.log_std, context.batch.of(context.batch.actions, agent))
        for rollout in range(ROLLOUTS):
            columns = slice(rollout * NUM_ENVS, (rollout + 1) * NUM_ENVS)
            self.trajectories[f"{rollout_prefix(rollout)}/log_probability/{index}"][at] = every[:, columns]

    @property
    def ppo(self):
        return self.code.STAGES["postprocess"].__self__

    def parts(self, size):
        return micro_batches(range(ROLLOUTS), size)

    def sums(self, part, groups=GROUPS):
        context = replace(self.context, batch=self.joined(part.rollouts), part=part.place)
        return make_sums(self.algorithm, self.code, context, part.number, groups)

    def folded(self, sums, stage_names=None, groups=GROUPS, summaries=("behaviour",)):
        """Return the tensors that the stages learn from the sums, and their metrics."""
        context = replace(self.context, tensors={**self.context.tensors, **sums})
        names = stage_names or [stage.name for stage in self.algorithm.stages]
        share_ = Share(names, groups)
        count = len({name.split("/")[2] for name in sums})
        code = folding(self.algorithm, self.code, context, share_, count)
        tensors, metrics, _ = stages.run(self.algorithm, code, context, share_, summaries)
        return tensors, metrics

    def streamed(self, size):
        sums = {}
        for part in self.parts(size):
            sums |= self.sums(part)
        return self.folded(sums)

    def at_once(self):
        """Return the tensors that the stages learn from the whole round in one step."""
        names = [stage.name for stage in self.algorithm.stages]
        tensors, metrics, _ = stages.run(self.algorithm, self.code, self.context, Share(names, GROUPS))
        return {key: array for key, array in tensors.items() if key.split("/")[0] in self.algorithm.parts}, metrics


CASES = {
    "one choice": {},
    "several choices": {"task": "several choices"},
    "numbers": {"task": "numbers"},
    "recurrent": {"recurrent": True, "data_chunk_length": 4},
    "recurrent numbers": {"task": "numbers", "recurrent": True, "data_chunk_length": 4},
    "one member's rows": {"rows": "member"},
    "recurrent rows of one member": {"rows": "member", "recurrent": True, "data_chunk_length": 4},
    "reward of the team": {"reward": "team"},
    "normalised observations": {"normalise_observations": True},
    "norms": {"layer_norm": True},
    "no bonus": {"ent_coef": 0.0},
    "torch": {"engine": "torch"},
    "torch, recurrent": {"engine": "torch", "recurrent": True, "data_chunk_length": 4},
    "torch, numbers": {"engine": "torch", "task": "numbers"},
    "errors beyond the linear part": {"huber_delta": 0.3},
}


@pytest.mark.parametrize("name", ["ippo", "mappo"])
@pytest.mark.parametrize(("case", "size"), [("one choice", 1), ("one choice", ROLLOUTS), *((c, 2) for c in CASES)])
def test_streamed_step_equals_whole_round(case, size, name):
    """In one step, which test_stages.py and test_any_policy.py compare with automatic differentiation."""
    played = Round(name, **CASES[case])
    tensors, metrics = played.streamed(size)
    expected, expected_metrics = played.at_once()
    assert tensors.keys() == expected.keys()
    for key, array in expected.items():
        assert tensors[key].dtype == array.dtype
        scale = max(1.0, np.abs(array).max(initial=0)) if array.dtype.kind == "f" else 1
        np.testing.assert_allclose(tensors[key].reshape(array.shape), array, rtol=0, atol=1e-10 * scale, err_msg=key)
    assert metrics.keys() == expected_metrics.keys()
    for key, value in expected_metrics.items():
        assert metrics[key] == pytest.approx(value, rel=1e-8, abs=1e-10), key


def test_sums_fold_to_same_bytes_in_any_order():
    played = Round(precision=np.float32)
    made = [played.sums(part) for part in micro_batches(range(ROLLOUTS), 1)]
    made.append(dict(made[0]))  # a sixth, which repeats the first rollout
    made[5] = {name.replace("/00000/", "/00005/"): array for name, array in made[5].items()}
    hashes = set()
    for order in itertools.permutations(range(6)):
        sums = {}
        for number in order:
            sums |= made[number]
        hashes.add(codec.tensors_sha256(played.folded(sums, ["policy", "critic"], [1], ())[0]))
    assert len(hashes) == 1


@pytest.mark.parametrize("case", ["several choices", "recurrent", "one member's rows", "normalised observations"])
def test_sum_and_fold_placement_changes_no_byte(case):
    played = Round(precision=np.float32, **CASES[case])
    together, metrics = played.streamed(2)
    jobs = [(part, group) for part in played.parts(2) for group in GROUPS]
    random.Random(1).shuffle(jobs)
    sums = {}
    for part, group in jobs:
        sums |= through_storage(played.sums(part, [group]))
    apart, apart_metrics = {}, {}
    for stage, group in itertools.product(["policy", "postprocess", "critic"], GROUPS):
        tensors, of_stage = played.folded(sums, [stage], [group])
        apart |= tensors
        apart_metrics |= of_stage
    assert codec.tensors_sha256(apart) == codec.tensors_sha256(together)
    assert apart_metrics == metrics


@pytest.mark.parametrize("case", ["recurrent", "torch", "torch, recurrent", "torch, numbers"])
def test_a_part_without_a_living_agent_adds_nothing(case):
    played = Round("ippo", **CASES[case])
    for name in ("alive", "terminated"):
        played.trajectories[f"{rollout_prefix(0)}/{name}"][1] = False
    played.context = replace(played.context, batch=played.joined(range(ROLLOUTS)))
    assert not played.joined([0]).alive[1].any()
    tensors, metrics = played.streamed(1)
    expected, _ = played.at_once()
    for key in [key for key in expected if key.startswith(("policy/g01/", "critic/g01/"))]:
        np.testing.assert_allclose(tensors[key], expected[key], rtol=0, atol=1e-10)
    assert np.isfinite(list(metrics.values())).all()


@pytest.mark.parametrize("part", ["policy", "critic", "normaliser"])
def test_sums_of_other_weights_are_refused(part):
    played, other = Round(), Round()
    key = next(name for name in other.context.tensors if name == f"{part}/g01" or name.startswith(f"{part}/g01/"))
    other.context = replace(
        other.context, tensors={**other.context.tensors, key: other.context.tensors[key] * 1.001 + 1e-6}
    )
    sums = {**played.sums(played.parts(3)[0]), **other.sums(played.parts(3)[1])}
    message = rf"the sums of micro-batch 1 were made with another {part} of group g01 than the one that learns"
    with pytest.raises(BadRequest, match=message):
        played.folded(sums)


def test_missing_sums_are_named():
    played = Round()
    sums = {name.replace("/00000/", "/00001/"): array for name, array in played.sums(played.parts(3)[0]).items()}
    with pytest.raises(BadRequest, match="the task has no sums of micro-batch 0 for group g00"):
        played.folded(sums)


def test_counted_members_are_drawn_for_whole_round():
    played = Round("ippo", rows="member")
    of_parts = [
        share(replace(played.context, batch=played.joined(part.rollouts), part=part.place), 0)
        for part in played.parts(2)
    ]
    np.testing.assert_array_equal(np.concatenate(of_parts, axis=2), share(played.context, 0))
    assert 0 < learned_from(played.context, 0).sum() < played.context.batch.alive[[0, 2]].sum()


def test_streamed_round_takes_one_step():
    tensors, metrics = Round().streamed(2)
    # The clip by norm binds somewhere.
    assert max(metrics[f"critic/critic_grad_norm/g0{group}"] for group in GROUPS) > SETTINGS["max_grad_norm"]
    assert {int(tensors[f"{part}_optimiser/g00/steps"][0]) for part in ("policy", "critic")} == {1}


@pytest.mark.parametrize("case", ["several choices", "numbers", "recurrent", "torch"])
def test_group_without_living_agent_sums_nothing(case):
    """This happens if rollouts are shorter than episodes. Moments are not zero, so a step would move the weights."""
    played = Round("ippo", **CASES[case])
    for rollout in range(ROLLOUTS):
        for name in ("alive", "terminated"):
            played.trajectories[f"{rollout_prefix(rollout)}/{name}"][1] = False
    before = {
        key: array + 0.01 if key.endswith(("/first", "/second")) else array
        for key, array in played.context.tensors.items()
    }
    played.context = replace(played.context, batch=played.joined(range(ROLLOUTS)), tensors=before)
    for tensors, metrics in (played.streamed(2), played.at_once()):
        for key in (key for key in before if "/g01" in key):
            np.testing.assert_array_equal(tensors[key].reshape(before[key].shape), before[key], err_msg=key)
        assert {value for name, value in metrics.items() if name.endswith("/g01")} == {0.0}
    assert played.streamed(2)[1].keys() == played.at_once()[1].keys()
