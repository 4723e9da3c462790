"""Runs that learn differences to the networks of another run: first weights, bytes by placement, and mistakes."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import SMALL as SIGNAL
from driver import train as drive
from studies import study

from marless.coordinator.config.loading import load
from marless.functions import codec
from marless.functions.algorithms.adapters.state import frozen_networks, whole_networks
from marless.functions.keys import group_name
from marless.infra.local.file_storage import FileStorage
from marless.reports.weights import gather
from marless.runs.folder import RunFolder
from marless.runs.inputs.stored_inputs import store_inputs
from marless.runs.stored_run import look

SPREAD = ("task.name=mpe/simple_spread", "task.options.continuous_actions=true")
SUMS = ("algorithm.epochs=1", "algorithm.num_minibatches=1", "pipeline.micro_batch=1")
METHODS = {
    "ippo": ("algorithm.name=ippo",),
    "mappo": ("algorithm.name=mappo", "algorithm.layer_norm=true", "algorithm.normalise_observations=true"),
    "happo": ("algorithm.name=happo",),
    "gru": ("algorithm.name=mappo", "algorithm.recurrent=true"),
    "numbers": ("algorithm.name=ippo", *SPREAD),
    "torch": ("algorithm.name=ippo", "algorithm.engine=torch"),
    "sums": ("algorithm.name=mappo", *SUMS),
    "lag": ("algorithm.name=mappo", "pipeline.lag=1"),
}
WHOLE = {"lag": ("placement.rule=packed",)}
ADAPTED = ("base.policies=runs/pre", "base.rank=2", "sharing.identity=true", "actors.rollouts=2")


def adapted(folder, settings, **how):
    inputs = store_inputs(load(None, settings), "run", FileStorage(folder / "objects"))
    return drive(folder, settings, inputs=inputs, **how), inputs


def begun(state):
    return state.phase == "round"


def stored(name):
    with look(RunFolder(Path("runs") / name)) as run:
        return run.state.team, gather(run.state, run.storage)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("method", METHODS)
def test_the_placement_workers_and_a_kill_change_nothing(marless, tmp_path, method):
    assert marless.train("pre", *METHODS[method], "sharing.rule=all").code == 0
    settings = [*SIGNAL, *METHODS[method], *ADAPTED, "stop.rounds=4", "placement.chain=2"]

    def weights(name, *more, **how):
        trained, inputs = adapted(tmp_path / name, [*settings, *more], **how)
        if "leave" in how:
            trained = drive(tmp_path / name, [*settings, *more], inputs=inputs)
        assert trained.state.status == "finished"
        return trained.sha256, trained.state.final

    plain = weights("plain")
    assert plain[0]
    assert weights("split", "placement.rule=split", workers=2) == plain
    assert weights("whole", *WHOLE.get(method, ("placement.rule=whole",))) == plain
    assert weights("inline", "placement.rule=packed", "placement.inline_objects=true") == plain
    assert weights("killed", leave=lambda state: state.round == 2) == plain
    assert weights("other", "seed=9")[0] != plain[0]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("rule", ["all", "none"])
@pytest.mark.parametrize("method", ["mappo", "gru", "numbers"])
def test_run_begins_as_base_and_publishes_merged_weights(marless, tmp_path, method, rule):
    assert marless.train("pre", *METHODS[method], f"sharing.rule={rule}", "sharing.identity=true").code == 0
    team, base = stored("pre")
    settings = [*SIGNAL, *METHODS[method], *ADAPTED, "stop.rounds=2"]
    storage = FileStorage(tmp_path / "run" / "objects")
    first, inputs = adapted(tmp_path / "run", settings, leave=begun)
    before = gather(first.state, storage)
    for agent in first.state.team.learning:
        of, to = group_name(team.groups[agent]), group_name(agent)
        names = [name for name in base if name.startswith((f"policy/{of}/", f"normaliser/{of}"))]
        assert len(names) >= 6
        for name in names:
            assert before[name.replace(of, to)].tobytes() == base[name].tobytes(), name
    assert not [name for name in before if name.startswith("critic/")]

    last = drive(tmp_path / "run", settings, inputs=inputs).state
    after = gather(last, storage)
    frozen = codec.decode(codec.fetch(storage, inputs.base.networks), "base")
    whole = whole_networks(after | frozen_networks(frozen, inputs.base.team, last.team))
    published = {name for name in after if name.startswith("policy/")}
    assert published == {name for name in whole if name.startswith("policy/")}
    for name in published:
        assert after[name].tobytes() == whole[name].tobytes(), name
        assert name.endswith(("/clip",)) or not np.array_equal(after[name], before[name]), name


def test_run_with_base_can_be_base(marless, tmp_path):
    assert marless.train("first", "sharing.rule=all").code == 0
    assert marless.train("pre", "base.policies=runs/first", "base.rank=1", "sharing.rule=all").code == 0
    _, base = stored("pre")
    first, inputs = adapted(tmp_path / "run", [*SIGNAL, *ADAPTED, "sharing.rule=all"], leave=begun)
    storage = FileStorage(tmp_path / "run" / "objects")
    begun_as = gather(first.state, storage)
    frozen = codec.decode(codec.fetch(storage, inputs.base.networks), "base")
    assert {name.split("/")[0] for name in frozen} == {"policy", "critic", "normaliser"}
    for name in base:
        if name.startswith("policy/"):
            np.testing.assert_array_equal(begun_as[name], base[name])


@pytest.mark.parametrize(("algorithm", "rank"), [("ippo", 4), ("mappo", 8)])
def test_learner_object_is_below_two_fifths_of_networks(tmp_path, marless, algorithm, rank):
    """At the default widths and three agents."""
    spread = ("task.name=mpe/simple_spread", "algorithm.hidden=[64,64]", f"algorithm.name={algorithm}", "stop.rounds=1")
    assert marless.train("pre", *spread).code == 0
    whole = drive(tmp_path / "whole", [*SIGNAL, *spread], leave=begun).state
    settings = [*SIGNAL, *spread, "base.policies=runs/pre", f"base.rank={rank}"]
    small = adapted(tmp_path / "small", settings, leave=begun)[0].state
    before, after = (sum(ref.size for ref in {*state.objects} - {*state.policies}) for state in (whole, small))
    assert 0 < after <= 0.4 * before
    assert [ref.size for ref in whole.policies] == [ref.size for ref in small.policies]


@pytest.mark.parametrize(
    ("rates", "seeds"), [([1e-3, 1e-2], 2), pytest.param([1e-4, 3e-4, 1e-3, 1e-2], 8, marks=pytest.mark.conformance)]
)
def test_tenants_of_base_have_separate_weights_same_hash(marless, rates, seeds):
    assert marless.train("pre", "sharing.rule=all").code == 0
    head = f'seeds = "1-{seeds}"\npool.workers = 2\nvary.algorithm.lr = {rates}\n'
    common = (*SIGNAL[:-1], "base.policies=runs/pre", "sharing.identity=true", "stop.rounds=2")
    study(Path("tenants.toml"), head=head, base=common)
    assert marless("study", "tenants.toml").code == 0
    hashes, bases = {}, set()
    for folder in Path("studies/tenants/runs").iterdir():
        identity, config = (RunFolder(folder).identity(), RunFolder(folder).config())
        hashes[f"{config.algorithm.lr:g}", config.seed] = weights(folder)
        base = identity.inputs.base.networks
        assert codec.fetch(FileStorage(folder / "objects"), base)  # raises if it is not the object that was recorded
        bases.add((base.key, base.sha256))
    assert (len(hashes), len(bases)) == (len(rates) * seeds, 1)
    for (lr, seed), found in hashes.items():
        own = ("base.policies=runs/pre", "sharing.identity=true", f"algorithm.lr={lr}", f"seed={seed}", "stop.rounds=2")
        assert marless.train(f"alone-{lr}-{seed}", *own).code == 0
        assert weights(Path(f"runs/alone-{lr}-{seed}")) == found


def weights(folder):
    return json.loads((folder / "summary.json").read_text())["weights_sha256"]


def test_mistakes_are_one_line(marless):
    assert marless.train("pre").code == 0
    assert marless.train("q", "algorithm.name=iql", "algorithm.buffer_size=400").code == 0

    def refused(*settings, base="runs/pre"):
        said = marless.train("b", f"base.policies={base}", *settings)
        assert said.code == 2 and len(said.err) == 1 and not Path("runs/b").exists()
        return said.err[0]

    assert "base.policies: there is no run nowhere" in refused(base="nowhere")
    whole = refused("algorithm.name=iql")
    assert "base.policies: iql trains whole networks alone; use one of ippo, mappo, happo" in whole
    assert "base.policies: cnn has no differences of low rank" in refused("algorithm.network=cnn")
    assert "base.policies: sharing.rule=dynamic merges networks" in refused("sharing.rule=dynamic")
    assert "base.rank: 0 is not" in refused("base.rank=0")
    other_space = refused("task.options.signals=4")
    # The state has a one-hot of so many signals for each of two agents, and the time.
    assert "critic/g00/w0 is [7, 8] in that run and [9, 8] in this one; name a run of the same spaces" in other_space
    assert "is [8] in that run and [9] in this one" in refused("algorithm.hidden=[9]")
    assert "in that run" in refused("algorithm.layer_norm=true")
    assert "set sharing.identity as it has it" in refused("sharing.rule=all")
    assert "that run has 2 agents and this one 3" in refused("task.agents=3")
    assert "critic/g00/b0 is nothing in that run" in refused("sharing.rule=all", base="runs/q")
    assert "critic/g00/w0 is" in refused("algorithm.name=ippo")


def test_run_that_ended_badly_is_no_base(marless):
    assert marless.train("x", "algorithm.lr=1e38").code == 1
    said = marless.train("b", "base.policies=x")
    assert (said.code, said.err) == (2, ["marless: base.policies: x is no finished run; train it to its end first"])
