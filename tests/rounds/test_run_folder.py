"""The files in a run's folder, which are the same after stops and resumes and for any number of workers."""

import dataclasses
import json
import os
import re
import shutil
import signal
import tomllib
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pytest
from driver import EASY, FLIPPING

from marless.coordinator.config.loading import load
from marless.coordinator.config.schema import Pipeline, Stop
from marless.reports import load_policy
from marless.reports.lost_attempts import LostAttempts
from marless.reports.text import money
from marless.runs.folder import RunFolder
from marless.runs.stored_run import look
from marless.runs.summary import read
from marless.signals import Signals
from marless.views.plain import PlainView
from marless.views.receipt import receipt
from marless_cluster.remote.census import note

pytestmark = pytest.mark.usefixtures("no_processes")

# Metrics of a run of three agents that share networks, by algorithm: of the group, and of each agent.
_PPO = (
    {"policy/policy_loss", "policy/policy_grad_norm", "critic/value_loss", "critic/critic_grad_norm",
     "postprocess/advantage_spread"},
    {"policy/entropy", "policy/kl", "policy/clip_fraction", "postprocess/explained_variance"},
)  # fmt: skip
_CRITICS = (
    {"policy/policy_grad_norm", "critic/critic_grad_norm"},
    {"critic/td_loss", "critic/value", "critic/overestimation", "policy/entropy"},
)
_SOFT = (_CRITICS[0] | {"critic/twin_grad_norm", "policy/temperature"}, _CRITICS[1])
_JOINT = {"policy/policy_grad_norm", "mix/td_loss", "mix/joint_value", "mix/overestimation"}
METRICS = {
    "ippo": _PPO,
    "mappo": _PPO,
    "happo": _PPO,
    "iql": ({"policy/policy_grad_norm"}, {"policy/td_loss", "policy/value", "policy/overestimation"}),
    "vdn": (_JOINT, {"mix/value"}),
    "qmix": (_JOINT | {"mix/mixer_grad_norm"}, set()),
    "qplex": (_JOINT | {"mix/mixer_grad_norm"}, set()),
    "iddpg": _CRITICS,
    "maddpg": _CRITICS,
    "isac": _SOFT,
    "masac": _SOFT,
}

FILES = {
    "config.toml",
    "plan.json",
    "metrics.jsonl",
    "attempts.jsonl",
    "bill.json",
    "summary.json",
    "curve.png",
    "evaluations.json",
    "policies.safetensors",
    "best_policies.safetensors",
    "objects",
    "ledger.sqlite",
    "workers",
}


@pytest.fixture
def first(marless, trained):
    shutil.copytree(trained, "runs", symlinks=True)


@pytest.fixture
def whole(marless, trained):
    shutil.copytree(trained / "first", "runs/whole")


def summary(name):
    return json.loads(Path(f"runs/{name}/summary.json").read_text())


@pytest.fixture
def signalled(monkeypatch):
    """Sends this process a user's signals: one when `round` is finished, more when the run reports that it stops."""

    def plan(number, round, insists=False):
        show_round, print_remark = PlainView.round, PlainView.remark

        def after_round(view, plan, line):
            show_round(view, plan, line)
            if line.round == round:
                os.kill(os.getpid(), number)

        def after_remark(view, text):
            print_remark(view, text)
            if insists:
                os.kill(os.getpid(), number)

        monkeypatch.setattr(PlainView, "round", after_round)
        monkeypatch.setattr(PlainView, "remark", after_remark)

    # A process under nohup would ignore it.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield plan
    signal.signal(signal.SIGHUP, before)


def test_run_is_folder_whose_path_is_last_line(marless, processes, pictures):
    said = marless.train("first")
    assert (said.code, said.err, said.out[-1]) == (0, [], "runs/first")
    assert {path.name for path in Path("runs/first").iterdir()} - {".lock"} == FILES
    assert Path("runs/latest").readlink() == Path("first")
    # Folders of deleted objects are gone when the run ends.
    assert all(any(folder.iterdir()) for folder in Path("runs/first/objects").rglob("*") if folder.is_dir())


def test_summary_agrees_with_bill_and_settings(marless):
    said = marless.train("first", "seed=7")
    found, bill = summary("first"), json.loads(Path("runs/first/bill.json").read_text())
    # Four rounds of 8 environments, 5 steps each.
    assert (found["run"], found["seed"], found["rounds"], found["env_steps"]) == ("first", 7, 4, 160)
    assert (found["status"], found["reason"]) == ("finished", "rounds")
    # The evaluations after the last round take no steps.
    rounds_s = json.loads(Path("runs/first/metrics.jsonl").read_text().splitlines()[-1])["seconds"]
    # Both are rounded to millionths.
    assert found["final_seconds"] == pytest.approx(found["train_seconds"] - rounds_s, abs=2e-6)
    assert found["final_seconds"] > 0
    assert found["env_steps_per_second"] == pytest.approx(160 / rounds_s, rel=0.01)
    assert 0 < found["start_up_seconds"] < found["wall_seconds"]
    assert found["final_return"]["episodes"] == 4 and found["absolute_return"]["episodes"] == 40
    assert {name: bill[name] for name in found["dollars"]} == pytest.approx(found["dollars"])
    parts = {name: dollars for name, dollars in found["dollars"].items() if name != "total"}
    assert sum(parts.values()) == pytest.approx(found["dollars"]["total"])
    assert found.get("plateau") is None and not any("plateau" in line for line in said.out)


def test_evaluations_end_with_final_and_absolute_metric(marless, first):
    [run] = json.loads(Path("runs/first/evaluations.json").read_text())["toy"]["signal"]["mappo"].values()
    # Evaluated after round 2 during training. The final policies are of round 4.
    assert [entry.get("step_count") for entry in run.values()] == [80, 160, None]
    assert [len(entry["return"]) for entry in run.values()] == [4, 4, 40]
    assert list(run)[-1] == "absolute_metrics"


# Two agents guess once, and each correct guess pays both agents half a point: the return of episodes is twice their
# accuracy.
GUESSING = ("task.options={horizon=1}", "algorithm.lr=1e-6", "evaluation.episodes_per_invocation=3")


def test_evaluations_print_the_environment_s_own_metrics(marless):
    said, found = marless.train("first", *GUESSING), summary("first")
    final, absolute = (found[name]["accuracy"] for name in ("final_env_metrics", "absolute_env_metrics"))
    lines = [json.loads(line) for line in Path("runs/first/metrics.jsonl").read_text().splitlines()]
    [evaluated] = [line["evaluation"]["env_metrics"] for line in lines if "evaluation" in line]
    [run] = json.loads(Path("runs/first/evaluations.json").read_text())["toy"]["signal"]["mappo"].values()
    assert [entry["accuracy"] for entry in run.values()] == [[evaluated["accuracy"]], [final], [absolute]]
    returns = [np.mean(entry["return"]) for entry in run.values()]
    assert returns == pytest.approx([2 * value for value in (evaluated["accuracy"], final, absolute)])
    assert 0.0 < absolute < 1.0
    [progress] = [line for line in said.out if line.startswith("round")]
    assert f"(greedy)   accuracy {evaluated['accuracy']:.3f}  " in progress
    after = dict(zip([line.split()[0] for line in said.out], said.out[1:], strict=False))
    assert after["final"] == f"{'':<14}accuracy {final:.3f}"
    assert after["absolute"] == f"{'':<14}accuracy {absolute:.3f}"
    # Parts of 160, 160 and 10 episodes, weighted by their episodes.
    found = json.loads(marless("evaluate", "first", "--episodes", "330", "--json").out[0])
    assert found["env_metrics"] == {"accuracy": pytest.approx(found["mean"] / 2)} and 0.0 < found["mean"] < 2.0
    printed = [line.split()[:2] for line in marless("evaluate", "first", "--episodes", "330").out]
    assert ["accuracy", f"{found['env_metrics']['accuracy']:.3f}"] in printed


def test_manual_evaluation_may_change_task_if_playable(marless):
    marless.train("first", "algorithm.lr=1e-6")
    whole, short = (
        json.loads(marless("evaluate", "first", *more, "--episodes", "9", "--json").out[0])
        for more in ([], ["task.options.horizon=1"])
    )
    # Options of a single step as in `GUESSING`. Episodes of five steps end when both agents are wrong.
    assert short["mean"] == pytest.approx(2 * short["env_metrics"]["accuracy"]) and whole["mean"] > short["mean"] > 0
    assert short["settings"] == ["task.options.horizon=1"] and "settings" not in whole
    for setting, message in (
        ("task.options.signals=4", "other classes or sides than first was trained with"),
        ("task.options.horison=3", "task.options: there is no horison here"),
        ("stop.rounds=9", "policies are what they are; only task.* and evaluation.greedy can be set anew"),
    ):
        (said,) = [line for line in marless("evaluate", "first", setting).err if line.startswith("marless: ")]
        assert message in said


@pytest.mark.slow
def test_policy_with_fixed_sizes_needs_same_agents(marless):
    assert marless.train("numbered", "task.name=mpe/simple_spread", "sharing.rule=all", "stop.rounds=1").code == 0
    said = marless("evaluate", "numbered", "--agents", "5")
    assert (said.code, said.out) == (2, [])
    assert "know their 3 agents by number; train with sharing.identity=false" in said.err[0]
    assert marless.train("flat", "task.name=mpe/simple_spread", "stop.rounds=1").code == 0
    assert (
        "takes 18 numbers and knows 5 actions; the task gives 30" in marless("evaluate", "flat", "--agents", "5").err[0]
    )


def test_environment_without_own_metrics_prints_none(marless):
    said = marless.train("first", "task.name=mpe/simple_spread")
    last_lines = said.out[next(number for number, line in enumerate(said.out) if line.startswith("trained")) :]
    labels = [line.split()[0] for line in last_lines if not line.startswith(" ")]
    assert labels == ["trained", "final", "absolute", "bill", "play", "runs/first"]
    assert max(map(len, last_lines)) <= 80
    assert re.search(r"\(greedy\) +-?[\d.]+ sampled   ", next(line for line in said.out if line.startswith("round")))
    assert (summary("first")["final_env_metrics"], summary("first")["absolute_env_metrics"]) == ({}, {})
    assert "env_metrics" not in json.loads(marless("evaluate", "first", "--episodes", "4", "--json").out[0])
    rows = [line.split()[0] for line in marless("evaluate", "first", "--episodes", "4").out]
    assert rows[2:] == ["return", "agent_0", "agent_1", "agent_2"]
    lines = [json.loads(line) for line in Path("runs/first/metrics.jsonl").read_text().splitlines()]
    assert [line["evaluation"].keys() for line in lines if "evaluation" in line] == [{"round", "env_steps", "returns"}]
    # Lines by older versions lack this field.
    bare = summary("first")
    del bare["final_env_metrics"], bare["absolute_env_metrics"]
    Path("runs/first/summary.json").write_text(json.dumps(bare))
    assert read(RunFolder(Path("runs/first"))).final_env_metrics == {}


def test_the_policies_can_be_played(marless, first):
    policy = load_policy("runs/latest")
    assert set(policy.act({"agent_0": [1, 0, 0], "agent_1": [0, 0, 1]})) == {"agent_0", "agent_1"}


REPLAYED = ("algorithm.updates_per_round=2", "algorithm.batch_size=8", "algorithm.buffer_size=80")
METHODS = {
    "mappo": (),
    "qmix by priority": ("algorithm.name=qmix", "algorithm.priority=0.7", *REPLAYED),
    "maddpg with memory": ("algorithm.name=maddpg", "algorithm.recurrent=true", *REPLAYED),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("method", METHODS)
def test_configuration_of_run_reproduces_run(marless, processes, method):
    marless.train("first", "seed=3", *METHODS[method])
    assert marless("train", "runs/first/config.toml", "--run", "second", "--workers", "2").code == 0
    assert load(Path("runs/second/config.toml")) == load(Path("runs/first/config.toml"))
    assert summary("second")["weights_sha256"] == summary("first")["weights_sha256"]
    assert [marless("runs", "verify", name).code for name in ("first", "second")] == [0, 0]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_stops_run_and_resume_completes_it(marless, processes, whole, signalled, number, code):
    signalled(number, round=2)
    said = marless.train("first")
    assert said.code == code
    assert said.err[-1] == "marless: stopped after round 2; go on with: marless resume first"
    assert said.out[-1] == "runs/first"
    assert summary("first")["status"] == "interrupted"
    lost = marless("status", "first")
    assert "go on       marless resume first" in lost.out and not any("lost" in line for line in lost.out)
    signalled(number, round=0)
    assert marless("resume", "--workers", "2").code == 0
    stopped, undisturbed = summary("first"), summary("whole")
    assert stopped.keys() == undisturbed.keys()
    for name in ("weights_sha256", "rounds", "env_steps", "final_return", "absolute_return", "status"):
        assert stopped[name] == undisturbed[name]
    assert Path("runs/first/evaluations.json").read_bytes() == Path("runs/whole/evaluations.json").read_bytes()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU])
def test_repeated_hangup_and_batch_signals_are_accepted(marless, signalled, number):
    signalled(number, round=2, insists=True)
    said = marless.train("first")
    assert (said.code, said.err[-1]) == (
        128 + number, "marless: stopped after round 2; go on with: marless resume first"
    )  # fmt: skip


def test_batch_signal_stays_with_program_that_handles_it():
    heard = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))
    try:
        with Signals() as signals:
            os.kill(os.getpid(), signal.SIGUSR1)
            assert (heard, signals.received) == ([signal.SIGUSR1], 0)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_second_signal_ends_immediately_and_run_continues(marless, whole, signalled):
    signalled(signal.SIGINT, round=2, insists=True)
    said = marless.train("first")
    assert (said.code, said.err[-1]) == (130, "marless: stopped at once; go on with: marless resume first")
    signalled(signal.SIGINT, round=0)
    assert marless("resume", "first").code == 0
    assert summary("first")["weights_sha256"] == summary("whole")["weights_sha256"]


def test_a_higher_limit_continues_a_finished_run_alike(marless, first):
    marless.train("whole", "stop.rounds=6")
    assert marless("resume", "first", "stop.rounds=6").code == 0
    assert summary("first")["weights_sha256"] == summary("whole")["weights_sha256"]
    config = tomllib.loads(Path("runs/first/config.toml").read_text())
    assert config["stop"] == {"rounds": 6}
    assert "first is finished" in marless("resume", "stop.rounds=6").err[0]


@pytest.mark.slow
def test_too_slow_function_continues_with_more_time(marless, processes):
    # An answer that arrives before the time-out is first checked counts. These episodes take some 80 ms.
    many = "evaluation.final_episodes=6400"
    assert marless.train("whole", many).code == 0
    said = marless.train("first", many, "functions.evaluator.timeout_s=0.001")
    assert said.code == 1
    assert "the evaluator ran longer than its time-out of 0.001 s (functions.evaluator.timeout_s)" in said.err[-1]
    assert marless("resume", "first", "functions.evaluator.timeout_s=60").code == 0
    assert summary("first")["weights_sha256"] == summary("whole")["weights_sha256"]
    assert summary("first")["absolute_return"] == summary("whole")["absolute_return"]
    refused = marless("resume", "first", "functions.evaluator.memory_mb=512")
    assert refused.code == 2 and "functions.*.timeout_s), log.to, and of a resource slots, rate," in refused.err[0]


def test_resume_writes_files_missed_by_kill(marless, processes, first, pictures):
    expected = summary("first")["final_return"]
    for name in ("summary.json", "evaluations.json", "policies.safetensors"):
        Path("runs/first", name).unlink()
    assert marless("resume", "first").code == 0
    assert summary("first")["final_return"] == expected
    assert {path.name for path in Path("runs/first").iterdir()} >= FILES


def test_json_is_object_per_line_ending_with_summary(marless):
    said = marless.train("first", "--json", *FLIPPING, *EASY, "sharing.trial=false")
    events = [json.loads(line) for line in said.out]
    names = [event["event"] for event in events]
    assert names == ["started", "round", "round", "evaluation", "round", "remark", "round", "finished"]
    assert events[-1]["summary"] == summary("first") and events[-1]["folder"] == "runs/first"
    rounds = [(event["round"], event["sharing_event"]) for event in events if event["event"] == "round"]
    assert rounds == [(1, ""), (2, ""), (3, "shared"), (4, "")]
    lines = [json.loads(line) for line in Path("runs/first/metrics.jsonl").read_text().splitlines()]
    assert [event["env_metrics"] for event in events if event["event"] == "evaluation"] == [
        line["evaluation"]["env_metrics"] for line in lines if "evaluation" in line
    ]


def test_verify_recomputes_the_weights_and_names_what_differs(marless, first):
    said = marless("runs", "verify", "first")
    assert said.code == 0 and summary("first")["weights_sha256"] in said.out[0] and "OK" in said.out[0]
    newest = Path("runs/first/policies.safetensors")
    newest.write_bytes(newest.read_bytes()[:-1] + b"?")
    assert marless("runs", "verify", "first").out == ["first: policies.safetensors does not match the objects"]
    for path in Path("runs/first/objects").rglob("*.policies.safetensors"):
        path.unlink()
    said = marless("runs", "verify", "first")
    assert (said.code, len(said.out)) == (1, 1) and "is missing" in said.out[0]


def test_evaluation_is_independent_of_worker(marless, processes, first):
    said = [marless("evaluate", "first", "--episodes", "330", "--json", "--workers", n) for n in ("1", "2")]
    assert said[0].code == 0 and said[0].out == said[1].out
    found = json.loads(said[0].out[0])
    # Returns are sums over agents, so the agents' means add up to the mean.
    assert sum(found["agents"].values()) == pytest.approx(found["mean"])
    assert (found["episodes"], found["round"]) == (330, 4)


def test_status_lists_machines_of_driven_run(marless, first):
    workers = Path("runs/first/workers")
    note(workers, Counter(node7=4, node8=2))
    assert not any(line.startswith("workers") for line in marless("status", "first").out)
    with RunFolder(Path("runs/first")).driving():
        assert "workers     2 machines with 6 slots connected: node7 4, node8 2" in marless("status", "first").out
        note(workers, Counter())
        assert not any(line.startswith("workers") for line in marless("status", "first").out)


def test_runs_and_status_print_how_runs_stand(marless, first, signalled):
    signalled(signal.SIGINT, round=2)
    marless.train("second")
    assert [line.split()[:3] for line in marless("runs").out[1:]] == [
        ["first", "finished", "10.0"],
        ["second", "interrupted", "-"],
    ]
    rounds = [line.split()[line.split().index("kB") + 1] for line in marless("runs", "--long").out[1:]]
    assert rounds == ["4", "2"]
    status = dict(line.split(None, 1) for line in marless("status").out)
    assert status["run"] == "second" and status["status"] == "interrupted" and status["limits"] == "rounds 4"


def test_last_lines_tell_loss_and_reserve_of_cap(marless, first):
    folder = RunFolder(Path("runs/first"))
    capped = msgspec.structs.replace(folder.config(), stop=Stop(dollars=0.5))
    with look(folder) as stored_run:
        plan = dataclasses.replace(stored_run.plan, config=capped)
    lost = msgspec.structs.replace(read(folder), lost=LostAttempts(attempts=2), reason="dollars", rounds=1)
    lost = msgspec.structs.replace(lost, machine=msgspec.structs.replace(lost.machine, load=0.0))
    text = "\n".join(receipt(plan, lost, "first", "runs/first")[:-1]).replace("\n" + " " * 14, " ")
    lines = dict(line.split(maxsplit=1) for line in text.splitlines())
    assert "(arm, us-east-1), placed for the fewest dollars" in lines["bill"]
    assert lines["bill"].endswith(f"{money(lost.dollars.total)}   what stop.dollars caps, with learners for 1 slot")
    assert lines["lost"] == "2 attempts, 0.0 s, $0.00 of the bill"
    assert lines["trained"].startswith("1 round, ")
    assert lines["cap"].startswith("$0.50   the rest was kept for the evaluations at the end")
    lines = receipt(plan, read(folder), "first", "runs/first")
    assert not any("lost" in line or line.startswith("cap") or "nothing was learned" in line for line in lines)
    behind = dataclasses.replace(plan, config=msgspec.structs.replace(capped, pipeline=Pipeline(lag=2)))
    lines = receipt(behind, msgspec.structs.replace(read(folder), rounds=2), "first", "runs/first")
    assert "nothing was learned: learning begins in round 3 (pipeline.lag=2)" in " ".join(" ".join(lines).split())


@pytest.mark.slow
def test_estimate_is_within_quarter_of_bill(marless):
    settings = ("stop.rounds=40", "evaluation.final_episodes=640", "evaluation.episodes=64", "actors.num_envs=16")
    estimated = json.loads(marless("estimate", *settings, "--workers", "1", "--json").out[0])
    assert marless("train", *settings, "--run", "first", "--workers", "1").code == 0
    bill = json.loads(Path("runs/first/bill.json").read_text())
    assert estimated["rounds"] == 40
    assert estimated["bill"]["total"] == pytest.approx(bill["total"], rel=0.25)
    quantities = [{line["name"]: line["quantity"] for line in found["lines"]} for found in (estimated["bill"], bill)]
    for name in ("lambda requests", "s3 puts"):
        assert quantities[0][name] == quantities[1][name]
    # The estimate does not know which evaluation will be best. The best policies are read as one object per group.
    assert quantities[0]["s3 gets"] == pytest.approx(quantities[1]["s3 gets"], abs=3)


def test_leftovers_before_run_folder_disturb_no_one(marless, pictures):
    left = Path("runs/first")
    (left / "workers").mkdir(parents=True)
    for name in (".lock", "config.toml", "ledger.sqlite", "ledger.sqlite-wal"):
        (left / name).write_bytes(b"?")
    assert marless("runs").out == ["no runs here; start one with: marless train"]
    assert marless.train("first").code == 0
    assert {path.name for path in left.iterdir()} - {".lock"} == FILES


def test_damaged_plan_is_reported_and_hides_no_run(marless, first):
    marless.train("second")
    Path("runs/second/plan.json").write_bytes(b"{")
    said = marless("runs")
    assert (said.code, said.err) == (0, [])
    assert [line.split()[:2] for line in said.out[1:]] == [["second", "unreadable"], ["first", "finished"]]
    assert "runs/second/plan.json cannot be read" in said.out[1]


def test_a_continued_run_that_was_killed_is_interrupted(marless, signalled):
    marless.train("first", "evaluation.every=3")
    signalled(signal.SIGINT, round=5, insists=True)
    assert marless("resume", "first", "stop.rounds=8", "--workers", "1").code == 130
    # The last summary is from the end at round 4. The next would be from the evaluation after round 6.
    assert (summary("first")["status"], summary("first")["rounds"]) == ("finished", 4)
    [row] = map(json.loads, marless("runs", "--json").out)
    assert (row["status"], row["rounds"]) == ("interrupted", 5)
    said = marless("runs", "verify", "first")
    assert said.code == 0 and said.out[0].endswith("; summary.json is of round 4, the run is at round 5")


def contents(folder):
    """Every file with its bytes, except the index that SQLite shares between processes with an open ledger."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix != ".sqlite-shm"}


def test_commands_that_look_change_nothing(marless, first, signalled):
    signalled(signal.SIGINT, round=1, insists=True)
    marless.train("killed")
    before = contents(Path("runs"))
    for command in ("status first", "status killed", "runs verify first", "runs verify killed", "runs"):
        assert marless(*command.split()).code == 0
        assert contents(Path("runs")) == before


def test_unfinished_run_is_evaluated_with_memory(marless, processes, signalled):
    signalled(signal.SIGINT, round=1)
    marless.train("first")
    before = summary("first")["peak_mb"]
    assert before["actor"] > 10 and before["learner"] > 10 and before["evaluator"] is None
    evaluated = marless("evaluate", "--episodes", "4")
    assert evaluated.code == 0 and "policies of round 1" in evaluated.out[0]
    signalled(signal.SIGINT, round=0)
    marless("resume", "first", "--workers", "1")
    after = summary("first")["peak_mb"]
    assert after["actor"] >= before["actor"] and after["learner"] >= before["learner"] and after["evaluator"] > 10


def test_json_output_has_what_the_text_output_has(marless, first):
    status, listed, verified = (
        json.loads(marless(*command.split(), "--json").out[0]) for command in ("status", "runs", "runs verify first")
    )
    whole = summary("first")
    assert (status["status"], status["round"], status["limits"]) == ("finished", 4, {"rounds": 4})
    assert (listed["run"], listed["status"], listed["rounds"]) == ("first", "finished", 4)
    assert status["final_return"] == listed["final_return"] == whole["final_return"]
    assert status["dollars"] == listed["dollars"] == whole["dollars"]["total"]
    assert (verified["ok"], verified["problems"], verified["behind"]) == (True, [], "")
    assert verified["weights_sha256"] == whole["weights_sha256"]


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize("rounds", [200, 240], ids=["in the end", "on the way"])
def test_plateau_is_warned_once_and_in_summary(marless, rounds):
    # Only the correct action is legal: every return is 2 agents times 1 step from the first round on.
    flat = "task.options={signals=2,masked=true,horizon=1}"
    short = ("actors.rollout_length=1", "actors.num_envs=1", "algorithm.epochs=1", "placement.rule=whole")
    said = marless.train("flat", flat, *short, f"stop.rounds={rounds}", "evaluation.every=70")
    assert said.code == 0
    (line,) = (line for line in said.out + said.err if "plateau" in line)
    plateau = re.match(
        r"round +(\d+)  a plateau: the return has not risen beyond chance in (\d+) rounds; if that is", line
    )
    assert plateau and plateau[1] == plateau[2]
    assert int(plateau[1]) == 200 if rounds == 200 else 210 <= int(plateau[1]) < 240
    found = summary("flat")["plateau"]
    assert (found["of"], found["rise"], found["gain"]) == (rounds, 0.0, 0.0)


@pytest.mark.parametrize("name", METRICS)
def test_metrics_lines_have_diagnoses_of_algorithm(marless, name):
    replays = METRICS[name] is not _PPO
    settings = ("algorithm.updates_per_round=2", "algorithm.batch_size=8") if replays else ()
    said = marless.train(
        "first", f"algorithm.name={name}", *settings, "task.agents=3", "sharing.rule=all", "stop.rounds=2"
    )
    assert said.code == 0, said.err
    of_group, of_agents = METRICS[name]
    expected = {f"{figure}/g00" for figure in of_group | of_agents}
    expected |= {f"{figure}_a{agent:02d}/g00" for figure in of_agents for agent in range(3)}
    lines = [json.loads(line) for line in Path("runs/first/metrics.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == [1, 2]
    for line in lines:
        assert line["metrics"].keys() == expected
        assert all(isinstance(value, float) for value in line["metrics"].values())
    explores = {"iql", "vdn", "qmix", "qplex"}
    assert [0 < line["exploration"] <= 1 for line in lines] == [name in explores] * 2
