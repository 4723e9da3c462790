"""`marless report --timeline` and `marless estimate --simulate`, of a real run."""

import json
import shutil
from pathlib import Path

import pytest
from commands import SMALL, train_in

LONGER = ("stop.rounds=8", "actors.rollouts=3", "placement.rule=packed")
SIMULATE = ("estimate", "--simulate")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    for _ in range(2):  # the functions of a process's first run take longer
        folder = tmp_path_factory.mktemp("trained")
        train_in(folder, "first", *LONGER)
    return folder


@pytest.fixture
def run(trained, marless, no_processes):
    shutil.copytree(trained / "runs", "runs", symlinks=True)
    return marless


def test_every_attempt_of_run_is_on_timeline(run):
    said = run("report", "--timeline", "first", "--rounds", "3")
    assert (said.code, said.out) == (0, ["runs/first/timeline.html"])
    page = Path("runs/first/timeline.html").read_text()
    # Three rollouts and a learner in each of the last three rounds, and an evaluation in round 6.
    assert page.count("sample/") == 9 and page.count("learn/all") == 3 and page.count("evaluate/") == 1
    assert run("report", "--timeline", "first", "--trace", "trace.json").out == ["trace.json"]
    events = json.loads(Path("trace.json").read_text())["traceEvents"]
    assert sum(event["name"].startswith("sample/") for event in events) == 9


def test_simulated_run_asks_for_real_tasks(run):
    found = json.loads(run(*SIMULATE, "first", "--rounds", "8", "--json").out[0])
    # Describe, initialise. 8 rounds of three rollouts and a learner. Evaluations before rounds 2, 4 and 6.
    assert (found["rollouts"], found["rounds"], found["requests"]) == (3, 8, 2 + 8 * 4 + 3)
    assert found["round_s_lowest"] <= found["round_s"] <= found["round_s_highest"]


def test_run_continued_with_other_workers_is_simulated_so(marless, processes):
    """The set-up ran only on the first workers. Rollouts take longer than it takes to hand them out."""
    assert marless.train("first", *LONGER, "actors.num_envs=512").code == 0
    assert marless("resume", "first", "stop.rounds=11", "--workers", "2").code == 0
    assert marless(*SIMULATE, "first", "--rounds", "3").out[-3].startswith("2 functions at once")


def test_more_rollouts_on_one_slot_cost_more(run):
    said = run(*SIMULATE, "first", "--rollouts", "3,30", "--rounds", "5", "--json", "--timeline", "drawn.html")
    few, many = (json.loads(line) for line in said.out[:2])
    assert many["busy_s"]["sample"] > 5 * few["busy_s"]["sample"]
    assert many["round_dollars"] > 3 * few["round_dollars"]
    assert said.out[2] == "drawn.html" and "sample/00029-00029" in Path("drawn.html").read_text()


def test_simulation_is_labelled_table(run):
    said = run(*SIMULATE, "first", "--rollouts", "3,6", "--concurrency", "100", "--latency", "aws", "--rounds", "4")
    assert said.out[0].split()[:4] == ["rollouts", "s", "a", "round"]
    assert [line.split()[0] for line in said.out[1:3]] == ["3", "6"]
    assert said.out[7].startswith("100 functions at once; median of 3 rounds.")


@pytest.mark.slow
def test_a_configuration_is_recorded_before_it_is_simulated(marless):
    Path("mine.toml").write_text('task.name = "toy/signal"\nactors.num_envs = 4\n[evaluation]\nevery = 50\n')
    settings = [text for text in SMALL if "num_envs" not in text and "every" not in text and "stop" not in text]
    said = marless(*SIMULATE, "mine.toml", *settings, "--rollouts", "5", "--workers", "1", "--rounds", "4", "--json")
    assert (said.code, json.loads(said.out[0])["rollouts"]) == (0, 5)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--rollouts", "0"], "'0' is not a positive whole number"),
        (["--slow", "2"], "'2' is not a share from 0 to 1"),
        (["--rounds", "2"], "at least 3 rounds"),
        (["nothing=1"], "nothing"),
        (["--timeline", "no/such/folder.html"], "no/such/folder.html cannot be written: No such file or directory"),
    ],
)
def test_a_mistake_is_one_line(run, argv, says):
    said = run(*SIMULATE, "first", *argv)
    assert said.code == 2 and says in said.err[-1]


@pytest.mark.parametrize("command", [SIMULATE, ("report", "--timeline")])
def test_a_run_without_a_record_says_so(run, command):
    Path("runs/first/attempts.jsonl").unlink()
    said = run(*command, "first")
    assert said.code == 2 and len(said.err) == 1 and "attempts.jsonl" in said.err[0]


def test_what_simulates_does_not_change_the_run(run):
    before = {path: path.read_bytes() for path in Path("runs/first").rglob("*") if path.is_file()}
    run(*SIMULATE, "first", "--rounds", "4")
    assert {path: path.read_bytes() for path in Path("runs/first").rglob("*") if path.is_file()} == before
