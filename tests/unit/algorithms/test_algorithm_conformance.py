"""The algorithm check passes ours, and every planted fault fails it with a line that names the fault."""

import sys
from dataclasses import replace
from types import ModuleType
from typing import Annotated

import numpy as np
import pytest
from msgspec import Meta

from marless.functions.algorithms import registry
from marless.functions.algorithms.specification import AlgorithmConfig, AlgorithmSpec, StageSpec
from marless.functions.algorithms.stage import StageResult, SummaryResult
from marless.functions.errors import BadRequest
from marless.functions.keys import group_name
from marless.functions.messages.actor import Behaviour
from marless.functions.nn.recurrent import initialise, to_tensors
from marless.functions.nn.shape import Network
from marless.functions.randomness import generator
from marless.testing import environments
from marless.testing.algorithms import check_schedule
from marless.testing.algorithms.conformance import check
from marless.testing.algorithms.random_tasks import TASKS, RandomTask, teams

PPO = {"hidden": [8, 8], "epochs": 1, "num_minibatches": 2}
NORMED = {"layer_norm": True}
REPLAYED = {"hidden": [8, 8], "updates_per_round": 2, "batch_size": 8, "buffer_size": 42}
PRIORITISED = REPLAYED | {"priority": 0.6}
CONSERVATIVE = REPLAYED | {"cql_alpha": 1.0, "recurrent": True}
NOISY = REPLAYED | {"noise_start": 0.1}
TD3 = {"twin_critics": True, "policy_delay": 2, "target_noise": 0.2}
SOFT = REPLAYED | {"entropy_per_number": -0.5}
# Settings of continuous actions.
OF_NUMBERS = {"noise_start", "entropy_per_number"}
SETTINGS = {
    "ippo": [PPO, PPO | {"recurrent": True}, PPO | NORMED, PPO | {"normalise_observations": True}],
    "mappo": [PPO, PPO | {"recurrent": True}, PPO | NORMED | {"recurrent": True}],
    "happo": [PPO, PPO | {"recurrent": True}],
    "bc": [PPO, PPO | {"recurrent": True}, PPO | NORMED],
    "iql": [REPLAYED, CONSERVATIVE, REPLAYED | {"recurrent": True}, PRIORITISED, PRIORITISED | {"recurrent": True}],
    "vdn": [REPLAYED, REPLAYED | {"recurrent": True}, PRIORITISED, PRIORITISED | {"recurrent": True}],
    "qmix": [REPLAYED, CONSERVATIVE, PRIORITISED, PRIORITISED | NORMED | {"recurrent": True}],
    "qplex": [REPLAYED, REPLAYED | {"recurrent": True}, PRIORITISED, PRIORITISED | {"recurrent": True}],
    "pqn": [PPO, PPO | {"decomposition": "none", "reward": "own"}, PPO | {"layer_norm": False}],
    "iddpg": [REPLAYED, NOISY, NOISY | {"recurrent": True}],
    "maddpg": [REPLAYED, NOISY, NOISY | NORMED | {"recurrent": True}, NOISY | TD3],
    "isac": [REPLAYED, REPLAYED | {"recurrent": True}, SOFT],
    "masac": [REPLAYED, REPLAYED | {"recurrent": True}, SOFT | NORMED, SOFT | {"recurrent": True}],
}
MIXED = TASKS["unequal agents with masks and a state"]


ONE_STEP = {"hidden": [4], "epochs": 1, "num_minibatches": 1}


@pytest.mark.parametrize("name", ["ippo", "mappo"])
def test_our_own_sums_pass(name):
    assert check(registry.algorithm(name), ONE_STEP, [MIXED]) == ()


def test_sums_missing_in_specification_are_named(shell):
    ippo = registry.algorithm("ippo")
    code = registry.implementation(ippo)
    lacking = replace(ippo, sum_parts=("policy", "normaliser"), implementation="own_sums")
    module = ModuleType("own_sums")
    vars(module).update(code._asdict())
    shell.provide({"own_sums": module})
    with pytest.raises(AssertionError, match=r"a round that is summed part by part: PARTIAL fails: .*no network named"):
        check(lacking, ONE_STEP, [MIXED])


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "spec", [spec for spec in registry.ALGORITHMS.ours() if not spec.function], ids=lambda spec: spec.name
)
def test_our_own_algorithms_pass(spec):
    first, *others = SETTINGS[spec.name]
    refused = check(spec, first)
    assert len(refused) < 3 and all("acts in" in line or "choices" in line or "numbers" in line for line in refused)
    for settings in others:
        task = TASKS["numbers"] if OF_NUMBERS & settings.keys() else MIXED
        assert check(spec, settings, [task]) == ()


@pytest.mark.parametrize("name", TASKS)
def test_the_tasks_are_environments_like_any_other(name):
    environments.check(lambda num_envs: RandomTask(TASKS[name], num_envs))


def test_agents_are_grouped_in_every_relevant_way():
    assert [(team.groups, team.identity) for team in teams(TASKS["equal agents"])] == [
        ((0, 1, 2), False),
        ((0, 0, 0), True),
        ((0, 0, 2), True),
    ]
    assert [team.groups for team in teams(TASKS["two sides"])] == [(0, 1, 2, 3), (0, 1, 0, 1), (0, 1, 0, 3)]


# A small algorithm with everything that a stage can be. `look` measures how often the group's agents were alive. `mix`
# counts all groups' steps in the group's own `count` and gives each its share. `policy` moves by that share.
PARTS = ("policy", "memory", "count")
LOOK = StageSpec("look", (), "group", ("policy",), ())
MIX = StageSpec("mix", ("look",), "team", ("count",), ("count",), couples=True)
POLICY = StageSpec("policy", ("mix",), "group", ("policy", "memory"), ("policy", "memory"))


class Config(AlgorithmConfig, frozen=True, kw_only=True, tag_field="name", tag="sound"):
    rate: Annotated[float, Meta(description="how far the policy moves")] = 0.5


def start(spec, team, config, seed, group):
    kind = spec.classes[spec.class_of[group]]
    network = Network((kind.observation_size + len(spec.agents) * team.identity, 4, kind.actions))
    name = group_name(group)
    made = to_tensors(network, initialise(network, generator(seed, "initialise", group), 1.0), f"policy/{name}")
    return {**made, f"memory/{name}": np.zeros(2, np.float32), f"count/{name}": np.zeros(1, np.int64)}


def look(context, group):
    own = [agent for agent, of in enumerate(context.team.groups) if of == group]
    return StageResult({f"lived/{group_name(group)}": context.batch.alive[own].sum(keepdims=True).ravel()}, {})


def mix(context, group):
    lived = [context.tensors[f"lived/{group_name(other)}"] for other in sorted(set(context.team.groups))]
    name = group_name(group)
    share = (context.tensors[f"lived/{name}"] / sum(lived)).astype(np.float32)
    return StageResult({f"share/{name}": share, f"count/{name}": context.tensors[f"count/{name}"] + sum(lived)}, {})


def policy(context, group):
    name = group_name(group)
    moved = context.config.rate * context.tensors[f"share/{name}"]
    weights = {key: array + moved for key, array in context.tensors.items() if key.startswith(f"policy/{name}/")}
    memory = context.tensors[f"memory/{name}"] + moved
    return StageResult({**weights, f"memory/{name}": memory}, {"moved": float(moved[0])})


def summarise(before, after, group):
    agents = [agent for agent, of in enumerate(before.team.groups) if of == group]
    return SummaryResult({}, {agent: before.batch.rewards[agent].sum(keepdims=True).ravel() for agent in agents})


def joined(context, target, group, base, distil_steps):
    return StageResult({f"memory/{group_name(group)}": np.zeros(2, np.float32)}, {})


SOUND = {"look": look, "mix": mix, "policy": policy, "summarise": summarise, "start": start, "merge": joined}
SPEC = AlgorithmSpec("sound", Config, (LOOK, MIX, POLICY), PARTS, "sound_algorithm", ("behaviour",))


def try_out(shell, spec=SPEC, tasks=(MIXED,), settings=None, **changed):
    parts = {**SOUND, **changed}
    code = ModuleType("sound_algorithm")
    code.STAGES = {name: parts[name] for name in ("look", "mix", "policy")}
    code.SUMMARIES = {"behaviour": parts["summarise"]}
    code.initialise, code.merge = parts["start"], parts["merge"]
    shell.provide({"sound_algorithm": code})
    return check(spec, settings, tasks)


def staged(*stages):
    return replace(SPEC, stages=stages)


def test_the_small_algorithm_passes(shell):
    assert try_out(shell, tasks=[TASKS["equal agents"], MIXED, TASKS["two sides"]]) == ()


def adding(stage, **more):
    """The stage's result with more tensors. `{g}` in names is the group's name."""

    def changed(context, group):
        made = {name.replace("__", "/").format(g=group_name(group)): array for name, array in more.items()}
        result = SOUND[stage](context, group)
        return StageResult({**result.tensors, **made}, result.metrics)

    return changed


def without(stage, start_of_name):
    def changed(context, group):
        result = SOUND[stage](context, group)
        kept = {name: array for name, array in result.tensors.items() if not name.startswith(start_of_name)}
        return StageResult(kept, result.metrics)

    return changed


def changes_a_weight(context, group):
    context.tensors[f"policy/{group_name(group)}/b0"][...] += 1
    return look(context, group)


def changes_the_data(context, group):
    context.batch.rewards[...] = 0
    return look(context, group)


def adds_to_the_context(context, group):
    context.tensors["aside"] = np.zeros(1)
    return look(context, group)


def draws(context, group):
    return StageResult({f"lived/{group_name(group)}": np.random.default_rng().integers(1, 9**9, 1)}, {})


def draws_from_numpy_s_own(context, group):
    return StageResult({f"lived/{group_name(group)}": np.random.randint(1, 9**9, 1)}, {})


def remembers(context, group, calls=[]):  # noqa: B006
    calls.append(group)
    return StageResult({f"lived/{group_name(group)}": np.array([len(calls)])}, {})


def reads_memory(context, group):
    lived = look(context, group).tensors[f"lived/{group_name(group)}"]
    return StageResult({f"lived/{group_name(group)}": lived + context.tensors[f"memory/{group_name(group)}"][:1]}, {})


def reads_memory_if_there(context, group):
    lived = look(context, group).tensors[f"lived/{group_name(group)}"]
    return StageResult({f"lived/{group_name(group)}": lived + (f"memory/{group_name(group)}" in context.tensors)}, {})


def reads_another_group_s_policy(context, group):
    other = next((of for of in context.team.groups if of != group), group)
    result = look(context, group)
    return StageResult(result.tensors, {"seen": float(context.tensors[f"policy/{group_name(other)}/b0"].sum())})


def reads_what_look_gave(context, group):
    result = policy(context, group)
    return StageResult(result.tensors, {"lived": float(context.tensors[f"lived/{group_name(group)}"][0])})


def writes_another_group_s_count(context, group):
    result = mix(context, group)
    names = sorted({group_name(of) for of in context.team.groups} - {group_name(group)})
    return StageResult({**result.tensors, **{f"count/{name}": np.zeros(1, np.int64) for name in names}}, {})


def in_double(context, group):
    result = policy(context, group)
    return StageResult({name: array.astype(np.float64) for name, array in result.tensors.items()}, {})


def flat(context, group):
    result = policy(context, group)
    return StageResult({name: array.reshape(-1, 1) for name, array in result.tensors.items()}, {})


def as_a_list(context, group):
    return StageResult({f"lived/{group_name(group)}": [1.0]}, {})


def as_a_dict(context, group):
    return look(context, group).tensors


def counts_with_numpy(context, group):
    return StageResult(look(context, group).tensors, {"lived": np.float32(1)})


def without_a_figure(context, group):
    return StageResult(look(context, group).tensors, {"lived": float("nan")})


def starts_at_random(spec, team, config, seed, group):
    return start(spec, team, config, np.random.default_rng().integers(9**9), group)


def starts_another_group(spec, team, config, seed, group):
    return {**start(spec, team, config, seed, group), "memory/g07": np.zeros(2, np.float32)}


def starts_without_a_policy(spec, team, config, seed, group):
    made = start(spec, team, config, seed, group)
    return {name: array for name, array in made.items() if not name.startswith("policy")}


def starts_at_infinity(spec, team, config, seed, group):
    return {**start(spec, team, config, seed, group), f"memory/{group_name(group)}": np.full(2, np.inf, np.float32)}


def starts_too_narrow(spec, team, config, seed, group):
    network = Network((2, spec.classes[spec.class_of[group]].actions))
    made = start(spec, team, config, seed, group)
    own = to_tensors(network, np.zeros(network.parameters, np.float32), f"policy/{group_name(group)}")
    return {**{name: array for name, array in made.items() if not name.startswith("policy")}, **own}


def refuses(spec, team, config, seed, group):
    raise BadRequest("not this one")


def summarises_present_groups(before, after, group):
    seen = sum(name.startswith("policy/") and name.endswith("/b0") for name in before.tensors)
    return SummaryResult({"seen": float(seen)}, {})


def merges_into_another(context, target, group, base, distil_steps):
    return StageResult({"memory/g09": np.zeros(2, np.float32)}, {})


def merges_into_a_new_shape(context, target, group, base, distil_steps):
    return StageResult({f"memory/{group_name(group)}": np.zeros(3, np.float32)}, {})


def merges_in_place(context, target, group, base, distil_steps):
    context.tensors[f"memory/{group_name(base)}"][...] += 1
    return StageResult({}, {})


ONE = np.ones(1, np.float32)
FAULTS = {
    "a weight is changed": ({"look": changes_a_weight}, "stage 'look', group 0.*it changes policy/g00/b0, which it"),
    "the data are changed": ({"look": changes_the_data}, r"it changes batch\.rewards\[0\], which it was given"),
    "the context gets a tensor": ({"look": adds_to_the_context}, "it adds or removes tensors of the context"),
    "a draw": ({"look": draws}, "called again with the same inputs, it gives other bytes"),
    "a draw from numpy's own": ({"look": draws_from_numpy_s_own}, "called again with the same inputs"),
    "a call that depends on earlier ones": ({"look": remembers}, "called again with the same inputs"),
    "a part read in secret": (
        {"look": reads_memory},
        "more than what it declares .reads policy.*KeyError: 'memory/g00'",
    ),
    "a part looked for in secret": ({"look": reads_memory_if_there}, "what it gives depends on more than what it decl"),
    "another group's part": ({"look": reads_another_group_s_policy}, "stage 'look'.*KeyError: 'policy/g01/b0'"),
    "a stage that is not declared before": ({"policy": reads_what_look_gave}, "after mix.*KeyError: 'lived/g00'"),
    "a part written in secret": (
        {"look": adding("look", **{"memory__{g}": ONE})},
        "writes memory/g00, which it does not declare",
    ),
    "a part not written": ({"policy": without("policy", "memory")}, "not give memory/g00, which would be lost"),
    "one layer not written": ({"policy": without("policy", "policy/g00/b1")}, "not give policy/g00/b1, which would be"),
    "a tensor more in a part": (
        {"policy": adding("policy", **{"policy__{g}__w9": ONE})},
        "which the state does not have",
    ),
    "another group's part written": (
        {"mix": writes_another_group_s_count},
        "writes count/g01, which is another group's",
    ),
    "a name without a group": ({"look": adding("look", extra=ONE)}, "it gives extra, which is not named <what>/g00"),
    "a tensor given twice": ({"mix": adding("mix", **{"lived__{g}": ONE})}, "gives lived/g00, which stage 'look' gave"),
    "another precision": ({"policy": in_double}, r"policy/g00/w0 was float32 .* and is float64"),
    "another shape": ({"policy": flat}, r"policy/g00/w0 was float32 \(3, 4\) and is float32 \(12, 1\)"),
    "not a number": ({"look": adding("look", **{"x__{g}": ONE * np.nan})}, "stage 'look', group 0.*x/g00 holds NaN"),
    "no array": ({"look": as_a_list}, "lived/g00 is no array of numbers: list"),
    "no result": ({"look": as_a_dict}, "it returns a dict, not a StageResult"),
    "a metric of numpy's": ({"look": counts_with_numpy}, "the metric lived is a float32, not a float"),
    "a metric that is no number": ({"look": without_a_figure}, "the metric lived is NaN"),
    "a start at random": ({"start": starts_at_random}, "initialise, group 0: another call gives other bytes"),
    "a start of another group": ({"start": starts_another_group}, "gives memory/g07, which is no <part>/g00"),
    "a start without a policy": ({"start": starts_without_a_policy}, "initialise, group 0: gives no policy"),
    "a start at infinity": ({"start": starts_at_infinity}, "initialise, group 0: memory/g00 holds NaN or infinity"),
    "a policy that does not fit": ({"start": starts_too_narrow}, "actors cannot play with the policies"),
    "no task at all": ({"start": refuses}, "no task is good enough: not this one"),
    "a summary that depends on placement": (
        {"summarise": summarises_present_groups},
        "placement .* reports other metrics",
    ),
    "a merge into another group": ({"merge": merges_into_another}, "gives memory/g09, which is no tensor of g00"),
    "a merge that changes a shape": ({"merge": merges_into_a_new_shape}, r"was float32 \(2,\) and is float32 \(3,\)"),
    "a merge in place": ({"merge": merges_in_place}, "merge of agents 0 and 2.*it changes what it was given"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named(fault, shell):
    changed, says = FAULTS[fault]
    with pytest.raises(AssertionError, match=says):
        try_out(shell, **changed)


def test_round_that_depends_on_storage_is_named(shell, monkeypatch):
    stored = check_schedule.as_stored
    monkeypatch.setattr(
        check_schedule, "as_stored", lambda made: {name: 2 * array for name, array in stored(made).items()}
    )
    with pytest.raises(AssertionError, match=r"count/g00 has other bytes in placement whole than stage by stage"):
        try_out(shell)


def test_undeclared_coupling_stage_is_named(shell):
    uncoupled = replace(MIX, couples=False)
    with pytest.raises(AssertionError, match=r"stage 'mix'.*after look, couples=False.*KeyError: 'lived/g01'"):
        try_out(shell, staged(LOOK, uncoupled, POLICY))


class Wordless(AlgorithmConfig, frozen=True, kw_only=True, tag_field="name", tag="sound"):
    rate: float = 0.5


class Wide(Config, frozen=True, kw_only=True, tag_field="name", tag="sound"):
    widths: Annotated[tuple[float, ...], Meta(description="shares")] = (0.5,)


class Forgetful(Config, frozen=True, kw_only=True, tag_field="name", tag="sound"):
    cap: Annotated[float | None, Meta(description="a cap")] = 3.0


class Idle(Config, frozen=True, kw_only=True, tag_field="name", tag="sound"):
    updates_per_round = 0


class Shy(Config, frozen=True, kw_only=True, tag_field="name", tag="sound"):
    def behaviour(self, env_steps):
        return "sample"


class Misnamed(Config, frozen=True, kw_only=True, tag_field="name", tag="other"):
    pass


class Greedy(Config, frozen=True, kw_only=True, tag_field="name", tag="sound"):
    def behaviour(self, env_steps):
        return Behaviour(kind="epsilon", amount=0.1)


CONFIGS = {
    "no description": (Wordless, {}, "the configuration's rate has no description"),
    "a setting that cannot travel": (Wide, {}, r"the configuration: BadRequest: widths = \(0.5,\) cannot travel"),
    "an unknown setting": (Config, {"rat": 1}, "the configuration: BadRequest: .*unknown field `rat`"),
    "no update": (Idle, {}, "updates_per_round is less than 1"),
    "no behaviour": (Shy, {}, r"behaviour\(0\) is no Behaviour"),
    "another tag": (Misnamed, {}, 'the specification: .*needs tag_field="name", tag="sound"'),
}


@pytest.mark.parametrize("fault", CONFIGS)
def test_a_configuration_that_will_not_do_is_named(fault, shell):
    config, settings, says = CONFIGS[fault]
    with pytest.raises(AssertionError, match=says):
        try_out(shell, replace(SPEC, config=config), settings=settings)


def test_behaviour_that_agents_lack_is_named(shell):
    with pytest.raises(AssertionError, match=r"actors cannot play with the policies: BadRequest: .*epsilon"):
        try_out(shell, replace(SPEC, config=Greedy), tasks=(TASKS["numbers"],))


def test_setting_whose_absence_does_not_travel_is_named(shell):
    with pytest.raises(AssertionError, match="not the same after it travelled"):
        try_out(shell, replace(SPEC, config=Forgetful), settings={"cap": None})


def grows(context, group):
    result, name = policy(context, group), f"memory/{group_name(group)}"
    return result._replace(tensors=result.tensors | {name: np.append(context.tensors[name], np.float32(1))})


def test_only_a_part_by_the_window_may_grow(shell):
    with pytest.raises(AssertionError, match=r"memory/g00 was float32 \(2,\) and is float32 \(3,\)"):
        try_out(shell, policy=grows)
    assert try_out(shell, replace(SPEC, resizable_parts=("memory",)), policy=grows) == ()


class Forgetting(Config, frozen=True, kw_only=True, tag_field="name", tag="sound"):
    @property
    def idle_parts(self):
        return ("memory",)


def test_a_part_that_is_idle_is_not_there(shell):
    with pytest.raises(AssertionError, match="gives memory/g00, which is no <part>/g00"):
        try_out(shell, replace(SPEC, config=Forgetting))


class Comparing(Config, frozen=True, kw_only=True, tag_field="name", tag="sound"):
    @property
    def stale_reads(self):
        return (("mix", "memory"),)


def test_stage_reads_old_data_state_only_by_settings(shell):
    def remembers(context, group):
        known = context.age and context.tensors[f"memory/{group_name(group)}"].sum()
        result, name = mix(context, group), f"share/{group_name(group)}"
        return result._replace(tensors=result.tensors | {name: result.tensors[name] + np.float32(known)})

    def compares(context, group):
        if context.age:
            assert context.tensors[f"policy/{group_name(group)}/w0"].size
        return remembers(context, group)

    assert try_out(shell, replace(SPEC, config=Comparing), mix=remembers) == ()
    with pytest.raises(AssertionError, match=r"(?s)mix.*policy/g00/w0"):
        try_out(shell, replace(SPEC, config=Comparing), mix=compares)


def report(more):
    def part_bytes(spec, team, config, group):
        kind = spec.classes[spec.class_of[group]]
        policy = 4 * ((kind.observation_size + len(spec.agents) * team.identity + 1) * 4 + 5 * kind.actions)
        return {"policy": policy + more, "memory": 8}

    return part_bytes


def test_more_bytes_than_there_are_are_named(shell):
    assert try_out(shell, replace(SPEC, part_bytes=report(0))) == ()
    with pytest.raises(AssertionError, match=r"part_bytes, group 0: (\d+) bytes for 'policy', which has \d+"):
        try_out(shell, replace(SPEC, part_bytes=report(1)))


SPECIFICATIONS = {
    "no specification": ("a spec", "it is of type str, not AlgorithmSpec"),
    "a name with a slash": (replace(SPEC, name="my/own"), "the name 'my/own' is not made of letters"),
    "a stage of another type": (staged(LOOK, "mix"), "its stages are not all of type StageSpec"),
    "no policy": (replace(SPEC, parts=("memory", "count")), "its parts have no 'policy'"),
    "a part twice": (replace(SPEC, parts=(*PARTS, "memory")), "it has two parts 'memory'"),
    "an unknown part": (staged(LOOK, MIX, replace(POLICY, reads=("polcy",))), "reads or writes 'polcy', which is none"),
    "an unknown resizable part": (
        replace(SPEC, resizable_parts=("memry",)),
        "the resizable part 'memry' is none of its parts",
    ),
    "nothing learned": (staged(LOOK, MIX), "none of its stages writes 'policy'"),
    "a stage twice": (staged(LOOK, LOOK, MIX, POLICY), "it has two stages 'look'"),
    "an unknown scope": (staged(replace(LOOK, scope="agent"), MIX, POLICY), "neither 'team' nor 'group'"),
    "a stage after a later one": (staged(MIX, LOOK, POLICY), "'mix' comes after 'look', which is no stage before it"),
    "a race": (
        staged(LOOK, MIX, replace(POLICY, after=())),
        "'look' and 'policy' share 'policy', and neither is after",
    ),
    "an unknown summary": (replace(SPEC, summaries=("beauty",)), "there is no summary 'beauty'"),
    "an open configuration": (replace(SPEC, config=dict), "is no subclass of AlgorithmConfig"),
    "bytes that nobody can ask for": (
        replace(SPEC, part_bytes={"policy": 8}),
        "part_bytes is of type dict, not a func",
    ),
    "a module for its name": (replace(SPEC, implementation=sys), "its implementation is <module 'sys'"),
    "a module that is not there": (
        replace(SPEC, implementation="no_such_module"),
        "the implementation no_such_module: ",
    ),
}


@pytest.mark.parametrize("fault", SPECIFICATIONS)
def test_a_specification_that_cannot_be_is_named(fault, shell):
    spec, says = SPECIFICATIONS[fault]
    with pytest.raises(AssertionError, match=says):
        try_out(shell, spec)


def test_stages_missing_in_specification_are_named(shell):
    with pytest.raises(AssertionError, match="STAGES has look, mix, policy, and the specification look, policy"):
        try_out(shell, staged(LOOK, replace(POLICY, after=("look",))))


def test_tasks_that_are_refused_are_reported(shell):
    def picky(spec, team, config, seed, group):
        if not spec.masked:
            raise BadRequest("masks only")
        return start(spec, team, config, seed, group)

    assert try_out(shell, tasks=[TASKS["equal agents"], MIXED], start=picky) == ("masks only",)
