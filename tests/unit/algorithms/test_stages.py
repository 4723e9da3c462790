"""The stages, run one by one, against one monolithic computation by automatic differentiation; and that the placement
of stages changes no byte."""

import dataclasses
import itertools
import types

import msgspec
import numpy as np
import pytest
import torch

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
from marless.functions.learner import stages
from marless.functions.messages.exchange import TaskHeader
from marless.functions.messages.team import Team
from marless.functions.policies import Policy
from marless.functions.randomness import generator

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


def scene(name, task, team):
    """The algorithm, its configuration, the first round's tensors and the rollouts that its policies sampled."""
    spec, algorithm = registry.spec(task), algorithms.algorithm(name)
    config = algorithms.configuration(algorithm, SETTINGS).resolved(spec)
    code, state, rollouts = algorithms.implementation(algorithm), {}, {}
    for group in sorted(set(team.groups)):
        state |= code.initialise(spec, team, config, SEED, group)
    for rollout in ROLLOUTS:
        environment = registry.make(task, NUM_ENVS)
        rollouts |= collect(environment, Policy(spec, team, state), STEPS, SEED, 0, rollout).tensors
    return Context(spec, team, config, SEED, 0, batch.join(spec, rollouts, ROLLOUTS), state), algorithm, rollouts


def in_double(tensors):
    return {name: array.astype(np.float64) if array.dtype == np.float32 else array for name, array in tensors.items()}


class Rollouts:
    """The rollouts' tensors agent by agent, as torch tensors; its own reading of the trajectory's layout."""

    def __init__(self, spec, tensors):
        self.spec, self.tensors = spec, tensors
        self.reward, self.terminated, self.alive = (self._joined(name, 2) for name in ("reward", "terminated", "alive"))
        self.ended, self.state = self._joined("ended", 1), self._joined("state", 1)
        self.after_state = self._joined("cut_state", 0)
        self.cut = [
            (t, e + NUM_ENVS * place)
            for place, rollout in enumerate(ROLLOUTS)
            for t, e in tensors[f"u{rollout:05d}/cut"].tolist()
        ]

    def of(self, name, agent, axis=1):
        """`name` of one agent, ``[T, E, ...]``."""
        for index, kind in enumerate(self.spec.classes):
            if agent in kind.agents:
                return self._joined(f"{name}/{index}", axis + 1)[kind.agents.index(agent)]
        raise KeyError(agent)

    def _joined(self, name, axis):
        return torch.cat([torch.tensor(self.tensors[f"u{rollout:05d}/{name}"]) for rollout in ROLLOUTS], dim=axis)


class Network:
    """A network of torch parameters with its own optimiser."""

    def __init__(self, tensors, part, name, config):
        self.prefix, self.config, self.capped = f"{part}/{name}", config, 0
        count = sum(key.startswith(f"{self.prefix}/w") for key in tensors)
        names = [f"{self.prefix}/{kind}{layer}" for layer in range(count) for kind in "wb"]
        self.parameters = {key: torch.nn.Parameter(torch.tensor(tensors[key])) for key in names}
        self.optimiser = torch.optim.Adam(self.parameters.values(), lr=config.lr, eps=config.adam_eps)

    def __call__(self, inputs):
        values = list(self.parameters.values())
        pairs = list(zip(values[::2], values[1::2], strict=True))
        for weight, bias in pairs[:-1]:
            inputs = torch.tanh(inputs @ weight + bias)
        return inputs @ pairs[-1][0] + pairs[-1][1]

    def step(self):
        norm = torch.nn.utils.clip_grad_norm_(self.parameters.values(), self.config.max_grad_norm)
        self.capped += bool(norm > self.config.max_grad_norm)
        self.optimiser.step()
        self.optimiser.zero_grad()

    def tensors(self):
        """Weights, and moments as one vector each, by the names of the learner's state."""
        part, name = self.prefix.split("/")
        states = [self.optimiser.state[parameter] for parameter in self.parameters.values()]
        joined = {
            short: torch.cat([state[long].reshape(-1) for state in states]).numpy()
            for short, long in (("first", "exp_avg"), ("second", "exp_avg_sq"))
        }
        found = {key: parameter.detach().numpy().copy() for key, parameter in self.parameters.items()}
        return found | {f"{part}_optimiser/{name}/{key}": array for key, array in joined.items()}


class Monolith:
    """The whole update of all groups as one graph and one backward pass per step."""

    def __init__(self, context, algorithm):
        self.context, self.centralised = context, algorithm.name == "mappo"
        self.groups = sorted(set(context.team.groups))
        tensors, config = in_double(context.tensors), context.config
        self.policy = {g: Network(tensors, "policy", f"g{g:02d}", config) for g in self.groups}
        self.critic = {g: Network(tensors, "critic", f"g{g:02d}", config) for g in self.groups}
        self.seen = dict.fromkeys(self.groups, (0.0, 0.0, 0.0))  # mean, mean square and weight of targets so far
        self.value_clipped = 0

    def round(self, number, rollouts):
        """Trains every group on the rollouts; the update of round `number`."""
        config = self.context.config
        rows = {g: self._prepared(g, rollouts) for g in self.groups}
        orders = {
            (part, g): self._minibatches(part, g, number, len(rows[g]["action"]))
            for part in ("policy", "critic")
            for g in self.groups
        }
        for _ in range(config.epochs * config.num_minibatches):
            loss = torch.zeros((), dtype=torch.float64)
            for g in self.groups:
                loss = loss + self._policy_loss(g, self._picked(rows[g], next(orders["policy", g])))
                loss = loss + self._value_loss(g, self._picked(rows[g], next(orders["critic", g])))
            loss.backward()
            for g in self.groups:
                self.policy[g].step()
                self.critic[g].step()

    def tensors(self):
        found = {}
        for g in self.groups:
            found |= self.policy[g].tensors() | self.critic[g].tensors()
            found[f"normaliser/g{g:02d}"] = np.array(self.seen[g])
        return found

    def _prepared(self, g, rollouts):
        """The group's living rows: inputs, actions, advantages, old values and targets."""
        pooled = [self._agent_rows(g, agent, rollouts) for agent in range(3) if self.context.team.groups[agent] == g]
        rows = {key: torch.cat([part[key] for part in pooled]) for key in pooled[0]}
        decay, targets = self.context.config.value_decay, rows["advantage"] + self._raw(g, rows["value"])
        mean, square, weight = self.seen[g]
        self.seen[g] = (
            decay * mean + (1 - decay) * targets.mean().item(),
            decay * square + (1 - decay) * (targets**2).mean().item(),
            decay * weight + 1 - decay,
        )
        centre, scale = self._scale(g)
        rows["target"] = (targets - centre) / scale
        advantage = rows["advantage"]
        rows["advantage"] = (advantage - advantage.mean()) / (advantage.std(unbiased=False) + 1e-8)
        return rows

    def _scale(self, g):
        mean, square, weight = self.seen[g]
        if weight == 0:
            return 0.0, 1.0
        return mean / weight, max(square / weight - (mean / weight) ** 2, 0.01) ** 0.5

    def _raw(self, g, values):
        centre, scale = self._scale(g)
        return values * scale + centre

    def _agent_rows(self, g, agent, rollouts):
        own, after = rollouts.of("observation", agent), rollouts.of("cut_observation", agent, axis=0)
        view, after = (rollouts.state, rollouts.after_state) if self.centralised else (own, after)
        with torch.no_grad():
            values = self.critic[g](self._named(agent, view))[..., 0]
            cut_values = self._raw(g, self.critic[g](self._named(agent, after))[..., 0])
        advantage = self._advantages(agent, self._raw(g, values), cut_values, rollouts)
        alive = rollouts.alive[agent]
        return {
            "own": self._named(agent, own)[alive],
            "view": self._named(agent, view)[alive],
            "legal": rollouts.of("mask", agent)[alive],
            "action": rollouts.of("action", agent)[alive].long(),
            "old": rollouts.of("log_probability", agent)[alive],
            "value": values[alive],
            "advantage": advantage[alive],
        }

    def _named(self, agent, inputs):
        if not self.context.team.identity:
            return inputs
        one_hot = torch.eye(3, dtype=torch.float64)[agent].expand(*inputs.shape[:-1], 3)
        return torch.cat([inputs, one_hot], dim=-1)

    def _advantages(self, agent, values, cut_values, rollouts):
        config, after = self.context.config, dict(zip(rollouts.cut, cut_values, strict=True))
        advantage = torch.zeros_like(values)
        for e in range(values.shape[1]):
            inlined = 0.0
            for t in reversed(rollouts.alive[agent, :, e].nonzero()[:, 0].tolist()):
                over, cut = rollouts.terminated[agent, t, e], (t, e) in after
                following = 0.0 if over else after[t, e] if cut else values[t + 1, e]
                residual = rollouts.reward[agent, t, e] + config.gamma * following - values[t, e]
                inlined = residual + (0.0 if over or cut else config.gamma * config.gae_lambda * inlined)
                advantage[t, e] = inlined
        return advantage

    def _minibatches(self, part, g, number, rows):
        config, rng = self.context.config, generator(SEED, number, part, g)
        bounds = [int(k * rows / config.num_minibatches) for k in range(config.num_minibatches + 1)]
        for _ in range(config.epochs):
            order = torch.tensor(rng.permutation(rows))
            yield from (order[start:end] for start, end in itertools.pairwise(bounds))

    @staticmethod
    def _picked(rows, chosen):
        return {key: array[chosen] for key, array in rows.items()}

    def _policy_loss(self, g, rows):
        config = self.context.config
        logits = torch.where(rows["legal"], self.policy[g](rows["own"]), -1e9)
        distribution = torch.distributions.Categorical(logits=logits)
        ratio = torch.exp(distribution.log_prob(rows["action"]) - rows["old"])
        clipped = torch.clamp(ratio, 1 - config.clip_coef, 1 + config.clip_coef)
        surrogate = torch.min(ratio * rows["advantage"], clipped * rows["advantage"])
        return -surrogate.mean() - config.ent_coef * distribution.entropy().mean()

    def _value_loss(self, g, rows):
        config, values = self.context.config, self.critic[g](rows["view"])[:, 0]
        moved = torch.clamp(values - rows["value"], -config.value_clip, config.value_clip)
        free, held = (
            torch.nn.functional.huber_loss(x, rows["target"], reduction="none", delta=config.huber_delta)
            for x in (values, rows["value"] + moved)
        )
        self.value_clipped += int((held > free).sum())
        return torch.max(free, held).mean()


def one_by_one(context, algorithm, wire=lambda tensors: tensors):
    """Runs every stage of every group in a separate call on stored objects only; returns all metrics too."""
    code, made, metrics = algorithms.implementation(algorithm), {}, {}
    for stage in algorithm.stages:
        for group in sorted(set(context.team.groups)):
            seen = dataclasses.replace(context, tensors=wire({**context.tensors, **made}))
            tensors, report, _ = stages.run(algorithm, code, seen, Share([stage.name], [group]))
            made |= tensors
            metrics |= report
    return made, metrics


@ALGORITHMS
@TEAMS
def test_decomposed_updates_are_those_of_one_monolithic_computation(name, task, team):
    context, algorithm, rollouts = scene(name, task, team)
    rollouts = in_double(rollouts)
    context = dataclasses.replace(
        context, batch=batch.join(context.spec, rollouts, ROLLOUTS), tensors=in_double(context.tensors)
    )
    monolith, played = Monolith(context, algorithm), Rollouts(context.spec, rollouts)
    for number in (0, 1):  # the second round starts from moments and a normaliser that are not empty
        context = dataclasses.replace(context, round=number)
        made, metrics = one_by_one(context, algorithm)
        monolith.round(number, played)
        expected = monolith.tensors()
        assert sorted(expected) == sorted(n for n in made if n.split("/")[0] in algorithm.parts and "steps" not in n)
        for key, wanted in expected.items():
            found = made[key].reshape(wanted.shape)
            assert found.dtype == np.float64
            np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10 * np.abs(wanted).max(), err_msg=key)
        context = dataclasses.replace(context, tensors={**context.tensors, **made})
    for group in monolith.groups:  # the cases that could hide an error occur
        assert metrics[f"policy/clip_fraction/g{group:02d}"] > 0.1
        assert monolith.policy[group].capped + monolith.critic[group].capped > 0
        assert int(made[f"policy_optimiser/g{group:02d}/steps"][0]) == 2 * 3 * 4
    assert monolith.value_clipped > 0


@TEAMS
def test_the_round_has_every_way_in_which_a_row_can_end(task, team):
    joined = scene("mappo", task, team)[0].batch
    assert not joined.alive.all()  # agents that died before their team
    assert (joined.terminated & ~joined.ended).any()
    assert (joined.terminated & joined.ended).any()
    assert (joined.ended[joined.cut[:, 0], joined.cut[:, 1]]).any()  # truncations
    assert (~joined.ended[-1]).any()  # the rollout's end within an episode
    assert not all(masks.all() for masks in joined.masks)


@ALGORITHMS
@TEAMS
def test_the_placement_of_stages_and_groups_changes_no_byte(name, task, team):
    context, algorithm, _ = scene(name, task, team)
    code, groups = algorithms.implementation(algorithm), sorted(set(team.groups))
    everything = [stage.name for stage in algorithm.stages]
    packed, metrics, _ = stages.run(algorithm, code, context, Share(everything, groups))

    def through_storage(tensors):
        return codec.decode(codec.encode(tensors, TaskHeader(task="t")), "k")

    split, split_figures = one_by_one(context, algorithm, through_storage)
    fused = {}
    for group in reversed(groups):
        fused |= stages.run(algorithm, code, context, Share(everything, [group]))[0]
    assert split_figures == metrics
    for other in (split, fused):
        assert codec.tensors_sha256(other) == codec.tensors_sha256(packed)
    assert {packed[f"{part}/g00/w0"].dtype for part in ("policy", "critic")} == {np.dtype(np.float32)}


def test_a_stage_leaves_what_it_read_as_it_was():
    context, algorithm, _ = scene("mappo", *SEPARATE)
    before = codec.tensors_sha256(context.tensors)
    one_by_one(context, algorithm)
    assert codec.tensors_sha256(context.tensors) == before


def test_a_group_does_not_see_the_rows_in_which_its_agents_were_dead():
    context, algorithm, rollouts = scene("ippo", *SEPARATE)
    expected, _ = one_by_one(context, algorithm)
    rollouts = {name: array.copy() for name, array in rollouts.items()}
    for rollout, index in itertools.product(ROLLOUTS, range(2)):
        agents = list(context.spec.classes[index].agents)
        dead = ~rollouts[f"u{rollout:05d}/alive"][agents]
        rollouts[f"u{rollout:05d}/observation/{index}"][dead] = 99
        rollouts[f"u{rollout:05d}/log_probability/{index}"][dead] = -50
    changed = dataclasses.replace(context, batch=batch.join(context.spec, rollouts, ROLLOUTS))
    found, _ = one_by_one(changed, algorithm)
    assert codec.tensors_sha256(found) == codec.tensors_sha256(expected)


def test_minibatches_cover_every_row_once_an_epoch_even_when_they_cannot_be_equal():
    context, _, _ = scene("ippo", *SEPARATE)
    inputs = np.arange(10.0)[:, None]
    found = [(part.rows, part.inputs) for part in minibatches(Independent(inputs), context, "policy", 0)]
    assert [len(rows) for rows, _ in found] == 3 * [2, 3, 2, 3]  # bounds 0, 2.5, 5, 7.5, 10, rounded down
    for epoch in range(3):
        rows = np.concatenate([rows for rows, _ in found[4 * epoch : 4 * epoch + 4]])
        np.testing.assert_array_equal(np.sort(rows), np.arange(10))
    for rows, x in found:
        np.testing.assert_array_equal(inputs[rows], x)


def test_with_fewer_rows_than_minibatches_every_row_is_one_and_the_figures_are_numbers():
    context, algorithm, _ = scene("mappo", *SEPARATE)
    many = msgspec.structs.replace(context.config, num_minibatches=10_000)
    made, metrics = one_by_one(dataclasses.replace(context, config=many), algorithm)
    rows = int(context.batch.alive[1].sum())
    assert int(made["critic_optimiser/g01/steps"][0]) == 3 * rows
    assert np.isfinite(list(metrics.values())).all()


def test_a_number_that_is_not_finite_is_not_published():
    context, algorithm, _ = scene("mappo", *SEPARATE)
    broken = {**context.tensors, "critic/g01/b2": np.array([np.nan], np.float32)}
    with pytest.raises(NotFinite, match=r"stage postprocess, group 1: advantage/g01 holds NaN or infinity"):
        one_by_one(dataclasses.replace(context, tensors=broken), algorithm)


def test_the_step_size_is_smaller_for_larger_teams_unless_it_is_given():
    config = msgspec.convert({"name": "mappo"}, algorithms.algorithm("mappo").config)
    teams = [registry.spec(EnvTask(name="toy/signal", agents=agents)) for agents in (2, 5, 6)]
    assert [config.resolved(team).lr for team in teams] == [1e-3, 1e-3, 7e-4]
    given = msgspec.structs.replace(config, lr=0.5)
    assert given.resolved(teams[-1]) is given


def all_summaries(context, algorithm, names, groups=None):
    code, stage_names = algorithms.implementation(algorithm), [stage.name for stage in algorithm.stages]
    share = Share(stage_names, groups or sorted(set(context.team.groups)))
    return stages.run(algorithm, code, context, share, names)


@ALGORITHMS
@TEAMS
def test_reporting_of_the_policies_changes_no_byte_of_what_is_trained(name, task, team):
    context, algorithm, _ = scene(name, task, team)
    silent, report = (all_summaries(context, algorithm, names) for names in ((), algorithm.summaries))
    assert codec.tensors_sha256(report.tensors) == codec.tensors_sha256(silent.tensors)
    assert silent.tables == {}
    assert silent.metrics.items() <= report.metrics.items()


@TEAMS
def test_what_is_reported_does_not_depend_on_the_placement_of_groups(task, team):
    context, algorithm, _ = scene("mappo", task, team)
    packed, metrics, tables = all_summaries(context, algorithm, algorithm.summaries), {}, {}
    for group in sorted(set(team.groups)):
        alone = all_summaries(context, algorithm, algorithm.summaries, [group])
        metrics |= alone.metrics
        tables |= alone.tables
    assert (metrics, tables) == (packed.metrics, packed.tables)


def test_figures_are_named_by_summary_and_group_and_tables_by_summary_and_agent():
    context, algorithm, _ = scene("mappo", *SHARED)
    report = all_summaries(context, algorithm, ("behaviour", "curvature"))
    assert sorted(report.tables) == ["behaviour/a00", "behaviour/a01", "behaviour/a02"]
    assert sorted(name for name in report.metrics if name.startswith("curvature")) == [
        "curvature/largest/g00",
        "curvature/smallest/g00",
    ]


def test_only_the_stage_that_trains_the_policies_reports_of_them():
    context, algorithm, _ = scene("mappo", *SEPARATE)
    code = algorithms.implementation(algorithm)
    first = stages.run(algorithm, code, context, Share(["postprocess", "critic"], [0]), algorithm.summaries)
    assert first.tables == {}
    later = dataclasses.replace(context, tensors={**context.tensors, **first.tensors})
    assert stages.run(algorithm, code, later, Share(["policy"], [0]), algorithm.summaries).tables


def test_a_summary_sees_the_incoming_weights_what_earlier_stages_gave_and_what_its_stage_gives():
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
