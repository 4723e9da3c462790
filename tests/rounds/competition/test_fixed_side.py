"""Runs with one fixed side: the same bytes on every back-end, and no access to the run that trained that side."""

import json
import shlex
import shutil
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
from driver import SMALL as TINY
from driver import in_flight, outcome, stores_what_it_needs
from driver import train as drive
from safetensors.numpy import load_file

from marless.coordinator.config.loading import load
from marless.coordinator.errors import UserError
from marless.infra.local.file_storage import FileStorage
from marless.reports import load_policy
from marless.runs.inputs.stored_inputs import store_inputs

TAG = ("task.name=mpe/simple_tag", "algorithm.hidden=[8]", "stop.rounds=3")
SMALL = (*TINY, *TAG)
# Options that shorten the documentation's commands.
SHORT = {"train": SMALL, "resume": (), "evaluate": ("--episodes", "4")}
NUMBERS = ("task.options.continuous_actions=true",)
NOISY = (*NUMBERS, "algorithm.noise_start=0.5")
REPLAY = ("algorithm.updates_per_round=2", "algorithm.batch_size=8", "algorithm.buffer_size=400")
METHODS = {
    "mappo": (),
    "ippo with memory": ("algorithm.name=ippo", "algorithm.recurrent=true", "sharing.rule=all"),
    "ippo in numbers": ("algorithm.name=ippo", "algorithm.clipped=true", *NUMBERS),
    "vdn": ("algorithm.name=vdn", *REPLAY),
    "qmix, shared": ("algorithm.name=qmix", "sharing.rule=all", *REPLAY),
    "maddpg": ("algorithm.name=maddpg", *REPLAY),
    "maddpg in numbers": ("algorithm.name=maddpg", *NOISY, *REPLAY),
    "masac": ("algorithm.name=masac", *REPLAY),
    "masac in numbers": ("algorithm.name=masac", *NUMBERS, *REPLAY),
    "iddpg in numbers": ("algorithm.name=iddpg", *NOISY, *REPLAY),
}
PLACEMENTS = [
    ("placement.rule=fused",),
    ("placement.rule=packed", "placement.pack=2"),
    ("placement.rule=whole",),
    ("placement.rule=auto",),
]
INLINE = ("placement.rule=fused", "placement.inline_objects=true")
SPLIT = ("placement.rule=split", "actors.rollouts=2")


@pytest.mark.parametrize("placement", [*PLACEMENTS, INLINE], ids=" ".join)
def test_the_placement_changes_nothing_against_chance(train, placement):
    settings = (*TAG, "opponents.side=1", "actors.rollouts=2")
    expected = outcome(train(*settings, "placement.rule=split"))
    assert outcome(train(*settings, *placement)) == expected
    assert placement != INLINE or outcome(train(*settings, "placement.rule=split", workers=2)) == expected


SCRIPT = "scripted_players:first_two"


@pytest.mark.parametrize("placement", PLACEMENTS, ids=" ".join)
def test_the_placement_changes_nothing_against_a_script(train, placement):
    settings = (*TAG, "opponents.side=1", f"opponents.policies={SCRIPT}", "actors.rollouts=2")
    split = train(*settings, "placement.rule=split")
    assert split.state.status == "finished", split.state.reason
    assert outcome(train(*settings, *placement)) == outcome(split)
    assert split.sha256 != train(*settings, "opponents.policies=random", "placement.rule=split").sha256


@pytest.mark.parametrize("method", ["qmix, shared", "masac", "iddpg"])
def test_off_policy_methods_learn_against_a_script(train, method):
    methods = {**METHODS, "iddpg": ("algorithm.name=iddpg", *REPLAY)}
    found = train(*TAG, *methods[method], "opponents.side=1", f"opponents.policies={SCRIPT}")
    assert found.state.status == "finished", found.state.reason


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Folders of runs by settings, each with policies to play against."""
    known = {}

    def of(*settings):
        if settings not in known:
            path = tmp_path_factory.mktemp("source")
            with chdir(path):
                from marless.cli.app import main

                options = [*SMALL, "stop.rounds=1", *settings]
                assert main(["train", *options, "--run", "source", "--workers", "1"]) == 0
            known[settings] = path / "runs/source"
        return known[settings]

    return of


class Against:
    def __init__(self, folder, *settings):
        self.folder, self.settings = folder, [*SMALL, *settings]
        self.inputs = store_inputs(load(None, self.settings), "run", FileStorage(folder / "objects"))

    def drive(self, *more, **how):
        return drive(self.folder, [*self.settings, *more], inputs=self.inputs, **how)


def against(folder, source, *settings):
    folder.mkdir()
    return Against(folder, "opponents.side=0", f"opponents.policies={source}", *settings)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("method", METHODS)
def test_the_placement_changes_nothing_against_fixed_policies(tmp_path, sources, method):
    """The fixed networks have another width and are recurrent."""
    space = [setting for setting in METHODS[method] if setting in NUMBERS]
    source = sources("algorithm.name=ippo", "algorithm.hidden=[5]", "algorithm.recurrent=true", *space)
    found = [
        outcome(against(tmp_path / rule, source, *METHODS[method]).drive(f"placement.rule={rule}"))
        for rule in ("split", "fused", "whole")
    ]
    assert found[1:] == found[:1] * 2


def networks(path):
    return {name.removeprefix("policy/"): array for name, array in load_file(path).items()}


def same(own, other):
    return own.keys() == other.keys() and all(np.array_equal(own[name], other[name]) for name in own)


def of(tensors, *groups):
    return {name: array for name, array in tensors.items() if name.split("/")[0] in groups}


def run(marless, name, *settings):
    said = marless("train", *SMALL, *settings, "--run", name, "--workers", "1")
    assert said.code == 0, said.err
    return networks(f"runs/{name}/policies.safetensors")


def test_side_learns_same_against_own_fixed_policies(marless):
    """In the first round all policies are untrained, so the fixed agents act like in a run without sides."""
    before = run(marless, "before", "stop.rounds=0")
    undivided, fixed = run(marless, "undivided", "stop.rounds=1"), ("opponents.side=0", "opponents.policies=before")
    divided = run(marless, "divided", "stop.rounds=1", *fixed)
    assert same(of(divided, "g03"), of(undivided, "g03"))
    assert not same(of(divided, "g03"), of(before, "g03"))
    assert same(of(divided, "g00", "g01", "g02"), of(before, "g00", "g01", "g02"))


def test_fixed_side_has_no_learner_and_never_changes(marless, no_processes):
    source = run(marless, "source")
    fixed = ("opponents.side=0", "opponents.policies=runs/source/best_policies.safetensors", "placement.rule=split")
    found = run(marless, "longer", *fixed, "seed=7")
    best = networks("runs/source/best_policies.safetensors")
    assert same(of(found, "g00", "g01", "g02"), of(best, "g00", "g01", "g02")) and source.keys() == found.keys()
    lines = [json.loads(line) for line in Path("runs/longer/metrics.jsonl").read_text().splitlines()]
    assert all(line["groups"] == 1 and line["learners"] == 3 for line in lines)  # one stage each, of one group
    assert {key.rpartition("/")[2] for line in lines for key in line["metrics"]} == {"g03"}
    assert {line["evaluation"]["side"] for line in lines if "evaluation" in line} == {"agent"}
    assert marless("runs", "verify", "longer").code == 0


def test_random_side_has_no_policy_to_play(marless, no_processes):
    found = run(marless, "chance", "opponents.side=1")
    assert {name.split("/")[0] for name in found} == {"g00", "g01", "g02"}
    policy = load_policy("runs/chance")
    assert policy.act({"adversary_0": np.zeros(16)}).keys() == {"adversary_0"}
    with pytest.raises(UserError, match="agent_0"):
        policy.act({"agent_0": np.zeros(14)})
    said = marless("evaluate", "chance", "--against", "random", "--json")
    assert [play["side"] for play in json.loads(said.out[0])["plays"]] == ["adversary"]
    assert marless("evaluate", "chance", "--episodes", "6").code == 0


@pytest.mark.one_in(2)
@pytest.mark.parametrize("placement", ["split", "whole"])
@pytest.mark.parametrize("moment", [in_flight(0, "initialise"), in_flight(2, "sample")], ids=["first", "later"])
def test_killed_run_continues_without_other_run(tmp_path, sources, placement, moment):
    settings = (f"placement.rule={placement}", "placement.chain=1", "checkpoint_every=2")
    source = shutil.copytree(sources(), tmp_path / "other")
    expected = against(tmp_path / "undisturbed", source, *settings).drive()
    killed = against(tmp_path / "killed", source, *settings)
    assert moment(killed.drive(leave=moment).state)
    shutil.rmtree(source)
    again = killed.drive()
    assert again.state.status == "finished" and outcome(again) == outcome(expected)
    assert stores_what_it_needs(tmp_path / "killed", again)


def test_command_resumes_after_other_run_is_gone(marless):
    run(marless, "first", "stop.rounds=1")
    fixed = ("opponents.side=1", "opponents.policies=first")
    expected = run(marless, "undisturbed", "stop.rounds=4", *fixed)
    run(marless, "second", "stop.rounds=2", *fixed)
    shutil.rmtree("runs/first")
    assert marless("resume", "second", "stop.rounds=4", "--workers", "1").code == 0
    assert same(networks("runs/second/policies.safetensors"), expected)


def test_past_checkpoint_is_opponent_as_documented(marless):
    text = Path(__file__).parents[3].joinpath("docs/how-to/opponents.md").read_text(encoding="utf-8")
    recipe = text.split("## Against a past checkpoint\n")[1].split("```\n")[1].replace("200", "1").replace("400", "3")
    for line in recipe.splitlines():
        program, *arguments = shlex.split(line, comments=True)
        if program == "cp":
            shutil.copy(*arguments)
        else:
            assert marless(arguments[0], *SHORT[arguments[0]], *arguments[1:], "--workers", "1").code == 0, line
    found, past, newest = map(
        networks, ("runs/escape/policies.safetensors", "chase-1.safetensors", "runs/chase/policies.safetensors")
    )
    chasers, prey = ("g00", "g01", "g02"), ("g03",)
    assert same(of(found, *chasers), of(past, *chasers)) and not same(of(newest, *chasers), of(past, *chasers))
    assert not same(of(found, *prey), of(past, *prey))


def test_teams_change_beside_a_side_that_stays(train, tmp_path):
    flipping = ("trend.rule=paper", "trend.gamma=100.0", "trend.window=3", "sharing.rule=dynamic", "stop.rounds=6")
    easy = ("sharing.epsilon=5.0", "sharing.margin=10.0", "sharing.trial_episodes=16", "sharing.distil_steps=5")
    settings = (*TAG, *flipping, *easy, "sharing.start=apart", "opponents.side=1")
    runs = [train(*settings, f"placement.rule={rule}") for rule in ("split", "whole")]
    assert outcome(runs[0]) == outcome(runs[1])
    assert [(line.round, line.event) for line in runs[0].lines if line.event] == [(3, "shared"), (6, "split")]
    assert runs[0].lines[3].team[3] == 3 and len({*runs[0].lines[3].team[:3]}) < 3


BAD = {
    "no such side": (["opponents.side=2"], "no side 2; there are 0 (adversary), 1 (agent)"),
    "no such side to play it": (["opponents.side=2", "opponents.policies=first"], "no side 2"),
    "no sides": (["task.name=mpe/simple_spread", "opponents.side=0"], "on one side"),
    "no side named": (["opponents.policies=first"], "opponents.policies: name the side that does not learn"),
    "no such run": (["opponents.side=0", "opponents.policies=nobody"], "opponents.policies: there is no run nobody"),
    "no policy file": (["opponents.side=0", "opponents.policies=notes.txt"], "is not a policy file"),
    "another task": (
        ["task.name=mpe/simple_adversary", "opponents.side=0", "opponents.policies=first"],
        "trained on another task",
    ),
    "chance": (["opponents.side=1", "opponents.policies=chance"], "agent_0 has no policy there"),
    "no script for the task": (["opponents.side=1", "opponents.policies=scripted"], "no scripted player of its own"),
    "no such script": (["opponents.side=1", "opponents.policies=my_players:absent"], "scripted player my_players"),
    "judged by who does not learn": (["opponents.side=0", "evaluation.side=0"], "does not learn"),
}


def test_impossible_opponents_are_refused_in_one_line(marless, tmp_path):
    run(marless, "first", "stop.rounds=0")
    run(marless, "chance", "stop.rounds=0", "opponents.side=1")
    (tmp_path / "notes.txt").write_text("no policies")
    for number, (settings, why) in enumerate(BAD.values()):
        said = marless("train", *SMALL, *settings, "--run", f"bad{number}", "--workers", "1")
        assert said.code == 2 and len(said.err) == 1 and why in said.err[0]
        assert not (tmp_path / f"runs/bad{number}").exists()
