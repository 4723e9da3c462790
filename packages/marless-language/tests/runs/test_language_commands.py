"""Commands for runs of agents that speak, and mistakes in one line."""

import json
from pathlib import Path

import pytest
from commands import Commands
from language_runs import RELAY, letters_base, relay_base, short_base, task_base
from safetensors.numpy import load_file

from marless.functions.errors import CorruptObject
from marless.reports.policy import load_policy

BASE = "base.model=relay.safetensors"
ECHO = ("task.name=text:spoken_tasks:make", "base.model=letters.safetensors")


@pytest.fixture
def marless(tmp_path, shell, capfd):
    shell.cd(tmp_path)
    Path("relay.safetensors").write_bytes(relay_base())
    Path("letters.safetensors").write_bytes(letters_base())
    return Commands(capfd)


def train(marless, *settings, name="talk"):
    return marless("train", *RELAY, BASE, "base.rank=2", "base.layers=1", *settings, "--run", name, "--workers", "1")


def test_run_is_evaluated_printed_exported_and_continued(marless):
    assert train(marless).code == 0
    assert "success" in " ".join(marless("evaluate", "talk", "--episodes", "8", "--workers", "1").out)
    texts = marless("replay", "talk", "--episodes", "2").out
    assert [line for line in texts if line.startswith("episode")] == ["episode 1", "episode 2"]
    assert sum("The number " in line for line in texts) == sum("1+2=3, 4+4=8, " in line for line in texts) == 2
    assert marless("export", "talk", "--to", "peft", "--role", "adder").code == 0
    config = json.loads(Path("exports/talk-peft/adapter_config.json").read_bytes())
    assert (config["r"], config["layers_to_transform"], config["base_model_name_or_path"]) == (2, [1], "base")
    assert len(load_file("exports/talk-peft/adapter_model.safetensors")) == 14
    assert load_file("exports/talk-peft/base/model.safetensors").keys() == load_file("relay.safetensors").keys()
    Path("relay.safetensors").write_bytes(b"another model" * 100)  # in place, but the run has a copy
    assert marless("resume", "talk", "stop.rounds=4", "--workers", "1").code == 0
    assert marless("runs", "verify", "talk").code == 0
    assert marless("report", "talk", "--out", "talk.html").code == 0


def test_task_of_package_is_learned_by_name(marless):
    assert train(marless, *ECHO).code == 0
    assert json.loads(Path("runs/talk/summary.json").read_bytes())["rounds"] == 3
    evaluation = ("evaluate", "talk", "--episodes", "30", "--workers", "1", "--json")
    paid, doubly = (json.loads(marless(*evaluation, *more).out[0]) for more in ([], ["task.options.pay=2"]))
    assert doubly["mean"] == pytest.approx(2 * paid["mean"]) and paid["mean"] > 0


def test_evaluation_options_and_longer_texts_change_no_weight(marless):
    assert train(marless, *ECHO).code == 0
    said = train(marless, *ECHO, "evaluation.options.pay=2", "evaluation.options.context=3", name="doubly")
    assert any("greedy, pay=2, context=3" in line for line in said.out)
    paid, doubly = (json.loads(Path(f"runs/{name}/summary.json").read_bytes()) for name in ("talk", "doubly"))
    assert doubly["weights_sha256"] == paid["weights_sha256"]
    assert doubly["final_return"]["mean"] == 2 * paid["final_return"]["mean"] > 0
    too_long = train(marless, *ECHO, "evaluation.options.context=300", name="long")
    assert too_long.code == 2 and "evaluation.options: text:spoken_tasks:make: a prompt" in too_long.err[0]


def test_all_roles_may_speak_by_one_adapter(marless):
    assert train(marless, "sharing.rule=all").code == 0
    (line,) = marless("replay", "talk", "--live").err
    assert "agents that speak are printed; leave --beside, --live, --out and --agents away" in line
    with pytest.raises(CorruptObject, match="holds adapters of agents that speak"):
        load_policy("runs/talk")
    marless("export", "talk", "--to", "peft")
    speaker, adder = (Path(f"exports/talk-peft/{role}/adapter_model.safetensors") for role in ("speaker", "adder"))
    assert speaker.read_bytes() == adder.read_bytes()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["task.name=mpe/simple"], "grpo learns tasks whose agents speak, and mpe/simple is none"),
        (["task.name=text/rely"], "no language task is called text/rely; did you mean text/relay?"),
        (["actors.num_envs=18"], "18 episodes are not groups of algorithm.group_size=4"),
        (["placement.rule=whole"], "agents that speak are not placed by whole; use balanced, fused, packed or split"),
        (["opponents.side=0", "opponents.policies=scripted"], "nobody speaks by a script"),
        (["base.model=nowhere"], "there is no file or folder nowhere"),
        (["base.rank=900"], "rank 900: the smallest matrix of the model allows 1 to"),
        (["base.model=cut.safetensors"], "cut.safetensors is cut short or damaged"),
        (["base.model=letters.safetensors"], "text/relay: the vocabulary has no symbol for '0'"),
        (["base.model=short.safetensors"], "a prompt with its reply has 17 tokens, and the base reads 8"),
        (["task.name=text:spoken_tasks:unpaid", ECHO[1]], "rewards are no array of 16 x 1 finite numbers"),
    ],
)
def test_mistakes_are_one_line(marless, settings, message):
    Path("cut.safetensors").write_bytes(relay_base()[:-1000])
    Path("short.safetensors").write_bytes(short_base())
    said = train(marless, *settings)
    assert said.code in (1, 2)
    (line,) = [line for line in said.err if line.startswith("marless: ")]
    assert message in line


def test_other_algorithms_and_back_ends_are_refused(marless):
    said = marless("train", "task.name=text/relay")
    assert said.err == [
        "marless: the command line: algorithm.name: in text/relay agents speak, which mappo does not learn; set"
        " algorithm.name=grpo"
    ]
    (line,) = train(marless, "--backend", "emulated").err
    assert "a function `language` would read a whole model at every start" in line


def test_missing_parts_of_numeric_run_are_one_line(marless):
    assert marless.train("numbers").code == 0
    (line,) = marless("export", "numbers", "--to", "peft").err
    assert "its agents do not speak" in line
    (line,) = marless("export", "numbers", "--to", "safetensors", "--role", "agent_0").err
    assert "writes all agents; leave role away" in line


def test_without_torch_agents_do_not_speak(marless, shell):
    shell.uninstall("torch")
    (line,) = train(marless).err
    assert "algorithm.name=grpo needs packages that are not installed" in line


def test_side_learns_against_frozen_adapters_of_other_run(marless):
    haggle = ("task.name=text/haggle", "base.model=haggle.safetensors")
    Path("haggle.safetensors").write_bytes(task_base("text/haggle"))
    assert train(marless, *haggle, name="before").code == 0
    frozen = ("opponents.side=1", "opponents.policies=runs/before")
    assert train(marless, *haggle, *frozen, name="against").code == 0
    (line,) = marless("crossplay", "before", "against").err
    assert "before has adapters of agents that speak, which networks do not play" in line
    for run, groups in (("before", 2), ("against", 1)):
        line = json.loads(Path(f"runs/{run}/metrics.jsonl").read_text().splitlines()[-1])
        assert (line["groups"], set(line["side_returns"])) == (groups, {"buyer", "seller"})
    (line,) = train(marless, *haggle, *frozen, "base.rank=1", name="other").err
    assert "its adapters are of another model or size" in line
    (line,) = train(marless, *frozen, name="another").err
    assert "it was trained on another task" in line
