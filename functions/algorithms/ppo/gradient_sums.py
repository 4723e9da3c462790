"""PPO with one step per round, from sums over parts of the round, so that learning begins with the first rollouts.

With the weights that sampled the round the probability ratio is 1, no clip binds, and the policy's gradient is affine
in the advantages. For n rows with advantages A of mean m and standard deviation s, entropies H and their weight c,

    gradient = -(Σ (A - m) ∇log π) / (s n) - c (Σ ∇H) / n.

m and s belong to the round and follow from its parts' statistics (Chan et al., 1983). A part k with mean m_k sums (A -
m_k) ∇log π and ∇log π. This is exact, without the cancellation of large means: `Σ (A - m) ∇log π = Σ_k [Σ (A - m_k)
∇log π + (m_k - m) Σ ∇log π]`. So a part takes one forward and three backward passes of the policy.

The critic's targets are in units of the normaliser at the round's start, because the round's targets update it only at
the end. The next critic learns in those units. Apart from rounding, only this differs from `ppo.py` with one epoch and
one minibatch. The ratio counts as exactly 1.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.agent_inputs import members
from marless.functions.algorithms.engine import engine_of
from marless.functions.algorithms.group_inputs import learned_from
from marless.functions.algorithms.input_statistics import batch_statistics, merged_statistics
from marless.functions.algorithms.metrics import ByAgent
from marless.functions.algorithms.minibatches import RowIndices
from marless.functions.algorithms.ppo.ppo import SPREAD_GUARD, Ppo, normaliser_of, policy_loss, policy_samples
from marless.functions.algorithms.ppo.specs import PpoConfig
from marless.functions.algorithms.stage import Context, Fold, StageResult, Tensors
from marless.functions.algorithms.team_reward_models import kept_sums
from marless.functions.algorithms.trainable import Trainable
from marless.functions.keys import group_name
from marless.functions.nn.layers import Array
from marless.functions.nn.losses import ClippedPolicyLoss, huber, mask_logits
from marless.functions.nn.normaliser import Statistics, merge_statistics, statistics_of

Wide = NDArray[np.float64]

# The names of a part's sums. Gradients ``[parameters]`` have the precision of their network, all others double.
# Statistics are ``[3, n]`` by agent, of advantages ``[3]``. Sums of rows and of policy metrics are ``[n]`` by agent.
CENTRED, SCORE, ENTROPY = "gradient/advantage", "gradient/score", "gradient/entropy"
VALUE, VALUE_LOSS = "gradient/value", "value_loss"
ADVANTAGES, TARGETS, ERRORS = "statistics/advantage", "statistics/target", "statistics/error"
SEEN, METRIC, ROWS = "seen/", "metric/", "rows"


@dataclass(frozen=True)
class Term:
    """A sum over rows for the engine, see `engine.Loss`. `value` is the sum if it is reported."""

    grad_output: Array
    grad_log_std: Array | None = None
    value: float = 0.0


class GradientSums:
    """The sums of a PPO algorithm, and the stages that learn from them."""

    def __init__(self, ppo: Ppo) -> None:
        self._ppo = ppo
        self.folds: dict[str, Fold] = {"postprocess": postprocess, "critic": critic, "policy": policy}

    def partial(self, context: Context[PpoConfig], group: int) -> dict[str, Array]:
        """See `stage.Partial`. Raises `BadRequest` for trajectories without log-probabilities."""
        estimates = self._ppo.estimates(context, group)
        by_agent = ByAgent.of(members(context.team, group), estimates.rows)
        inputs = {
            "policy": batch_statistics(context, "policy", group),
            "critic": batch_statistics(context, "critic", group, self._ppo.view(context.config)),
        }
        return {
            TARGETS: by_agent.statistics(estimates.targets),
            ERRORS: by_agent.statistics(estimates.targets - estimates.values),
            **self._value_sums(context, group, estimates.targets),
            **_policy_sums(context, group, estimates.advantage),
            **{f"{SEEN}{part}": statistics for part, statistics in inputs.items() if statistics is not None},
        }

    def _value_sums(self, context: Context[PpoConfig], group: int, targets: Array) -> dict[str, Array]:
        delta = context.config.huber_delta
        network = engine_of(context.config).loss_gradient(context.tensors, f"critic/{group_name(group)}")
        goals = normaliser_of(context, group).normalise(targets).astype(network.weights.dtype)
        samples = self._ppo.critic_samples(context, group, network.weights)

        def term(outputs: Array, log_std: Array | None, rows: RowIndices) -> Term:
            # At these weights values are unchanged, so their clip has no effect.
            distance = outputs[:, 0] - goals[rows]
            loss = float(huber(distance, delta).sum(dtype=np.float64))
            return Term(np.clip(distance, -delta, delta)[:, np.newaxis], value=loss)

        loss, gradient = network.of(samples.part(np.arange(len(samples))), term)
        return {VALUE: gradient.copy(), VALUE_LOSS: np.array([loss.value])}


def _policy_sums(context: Context[PpoConfig], group: int, advantage: Array) -> dict[str, Array]:
    name = group_name(group)
    network = engine_of(context.config).loss_gradient(context.tensors, f"policy/{name}")
    spread = statistics_of(advantage[:, np.newaxis])[:, 0]
    centred = (advantage - spread[1]).astype(network.weights.dtype)
    data = policy_loss(replace(context, tensors={**context.tensors, f"advantage/{name}": centred}), group)
    samples = policy_samples(context, group, network.weights)
    by_agent = ByAgent.of(members(context.team, group), learned_from(context, group))
    by_row = dict[str, Array]()

    def terms(outputs: Array, log_std: Array | None, rows: RowIndices) -> list[Term]:
        by_row.update(_metrics(data, outputs, log_std, rows))
        return list(_terms(data, outputs, log_std, rows))

    pairs = network.each(samples.part(np.arange(len(samples))), terms)
    gradients = {key: gradient.copy() for key, (_, gradient) in zip((CENTRED, SCORE, ENTROPY), pairs, strict=False)}
    sums = {f"{METRIC}{key}": values for key, values in by_agent.sums(by_row).items()}
    return {**gradients, **sums, ADVANTAGES: spread, ROWS: by_agent.counts.astype(np.float64)}


def _terms(data: ClippedPolicyLoss, outputs: Array, log_std: Array | None, rows: RowIndices) -> Iterator[Term]:
    """Σ A log π for the centred advantages A, Σ log π and, where it counts, Σ H."""
    outputs = mask_logits(outputs, None if data.legal is None else data.legal[rows])
    by_outputs, by_log_std = data.head.log_probability_gradient(outputs, log_std, data.actions[rows])
    advantage = data.advantage[rows, np.newaxis]
    yield Term(advantage * by_outputs, None if by_log_std is None else np.add.reduce(advantage * by_log_std, axis=0))
    yield Term(by_outputs, None if by_log_std is None else np.add.reduce(by_log_std, axis=0))
    if data.entropy_weight:
        by_outputs, by_log_std = data.head.entropy_gradient(outputs, log_std)
        yield Term(by_outputs, None if by_log_std is None else np.add.reduce(by_log_std, axis=0))


def _metrics(data: ClippedPolicyLoss, outputs: Array, log_std: Array | None, rows: RowIndices) -> dict[str, Array]:
    """The metrics of `losses.PolicyLoss` ``[rows]``, in the order of the rows."""
    outputs = mask_logits(outputs, None if data.legal is None else data.legal[rows])
    log_ratio = data.head.log_probability(outputs, log_std, data.actions[rows]) - data.log_probability[rows]
    ratio = data.head.arithmetic.exp(log_ratio)
    order = np.argsort(rows)
    metrics = {
        "entropy": data.head.entropy(outputs, log_std),
        "clip_fraction": np.abs(ratio - 1) > data.clip,
        "kl": ratio - 1 - log_ratio,
    }
    return {name: values[order] for name, values in metrics.items()}


def postprocess(context: Context[PpoConfig], group: int, sums: Sequence[Tensors]) -> StageResult:
    """Updates the group's normaliser."""
    targets, errors = (_merged(sums, name) for name in (TARGETS, ERRORS))
    count, mean, squares = functools.reduce(merge_statistics, targets.T)
    normaliser = normaliser_of(context, group)
    if count:
        normaliser = normaliser.after(float(mean), float(squares / count + mean * mean), context.config.value_decay)
    by_agent = ByAgent(members(context.team, group), targets[0].astype(np.int64))
    metrics = by_agent.explained_variance_of(errors, targets)
    metrics["advantage_spread"] = _deviation(_merged(sums, ADVANTAGES))
    return StageResult({f"normaliser/{group_name(group)}": normaliser.tensor}, metrics)


def critic(context: Context[PpoConfig], group: int, sums: Sequence[Tensors]) -> StageResult:
    """Trains the group's critic by one step."""
    name = group_name(group)
    network = Trainable.load(context, "critic", name, context.config.critic_lr)
    count = float(_merged(sums, TARGETS)[0].sum())
    norm = _step(network, _total(sums, VALUE), count)
    metrics = {"value_loss": float(_total(sums, VALUE_LOSS)[0]) / max(1.0, count), "critic_grad_norm": norm}
    return StageResult({**network.tensors("critic", name), **_inputs_seen(context, "critic", group, sums)}, metrics)


def policy(context: Context[PpoConfig], group: int, sums: Sequence[Tensors]) -> StageResult:
    """Trains the group's policy by one step."""
    name, config = group_name(group), context.config
    network, advantages = Trainable.load(context, "policy", name), _merged(sums, ADVANTAGES)
    count, divisor = float(advantages[0]), _deviation(advantages) + SPREAD_GUARD
    shifts = [float(part[ADVANTAGES][1] - advantages[1]) for part in sums]
    along = _total(sums, CENTRED)
    for shift, part in zip(shifts, sums, strict=True):
        along += shift * part[SCORE].astype(np.float64)
    gradient = along / -divisor
    if config.ent_coef:
        gradient -= config.ent_coef * _total(sums, ENTROPY)
    norm = _step(network, gradient, count)
    surrogate = sum(shift * float(part[ADVANTAGES][0]) for shift, part in zip(shifts, sums, strict=True))
    by_agent = ByAgent(members(context.team, group), _total(sums, ROWS).astype(np.int64))
    measured = sorted(key for key in sums[0] if key.startswith(METRIC))
    metrics = {
        "policy_loss": -surrogate / divisor / max(1.0, count),
        "policy_grad_norm": norm,
        **by_agent.means_of_sums({key.removeprefix(METRIC): _total(sums, key) for key in measured}),
    }
    more = {**_inputs_seen(context, "policy", group, sums), **kept_sums(context, group)}
    return StageResult({**network.tensors("policy", name), **more}, metrics)


def _step(network: Trainable, gradient: Array, count: float) -> float:
    """One step along the mean of a gradient that was summed over `count` rows. Returns its norm before clipping.

    There is a step only if there are rows (see `ppo.py`), because Adam's would still move along earlier gradients.
    """
    return network.apply(gradient / count) if count else 0.0


def _inputs_seen(context: Context[PpoConfig], part: str, group: int, sums: Sequence[Tensors]) -> Mapping[str, Wide]:
    name = f"{SEEN}{part}"
    return merged_statistics(context, part, group, [of_part[name] for of_part in sums]) if name in sums[0] else {}


def _total(sums: Sequence[Tensors], name: str) -> Wide:
    """The sum over the parts, in double precision and in their order."""
    total = np.zeros(sums[0][name].shape)
    for part in sums:
        total += part[name]
    return total


def _merged(sums: Sequence[Tensors], name: str) -> Statistics:
    return functools.reduce(merge_statistics, [part[name] for part in sums])


def _deviation(statistics: Statistics) -> float:
    count, _, squares = statistics
    return float(np.sqrt(squares / max(1.0, count)))
