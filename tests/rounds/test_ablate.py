"""Comparisons of rules by tiny runs through the command line: their files, stopping and resuming, and refusals."""

import csv
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from commands import SMALL
from drawing_commands import with_pictures
from studies import study

from marless.ablation.arms import ARMS

TINY = (*SMALL, "actors.rollouts=2", "trend.window=3", "stop.rounds=6")
PICTURES = {"return_steps.png", "return_dollars.png", "return_seconds.png", "rounds.png", "bill.png"}
KEPT = {
    "ablation.json",
    "base.toml",
    "runs",
    "results.csv",
    "curves.csv",
    "table.json",
    "table.md",
    ".lock",
    "code.json",
}
OLD_NAME = "marless: `marless ablate` is now `marless study FILE`, where the file names `rules`"


def ablated(marless, *argv):
    """Calls `marless ablate`, and leaves out the line with today's name."""
    said = marless("ablate", *argv)
    assert said.err[0] == OLD_NAME
    return replace(said, err=said.err[1:])


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """All arms with one seed, run once for the tests that only read."""
    folder = tmp_path_factory.mktemp("ablation")
    command = ["ablate", *TINY, "--seeds", "2", "--random", "0", "--workers", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "marless.cli.app", *command],
        cwd=folder,
        env=with_pictures(),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, f"{OLD_NAME}\n")
    return done.stdout.splitlines(), folder / "ablations" / "signal-mappo"


@pytest.mark.conformance
def test_every_arm_is_run_and_compared(everything):
    said, folder = everything
    count = len(ARMS)
    assert said[0] == f"arms: {count}, seeds: 1, runs: {count}, of them finished: 0"
    assert {tuple(line.split()[1:4]) for line in said[1 : 1 + count]} == {(arm, "seed", "2") for arm in ARMS}
    assert said[-1] == "ablations/signal-mappo"
    assert {path.name for path in folder.iterdir()} - {"groups.png"} == KEPT | PICTURES
    table = json.loads((folder / "table.json").read_text())
    assert [found["arm"] for found in table["comparisons"]] == list(ARMS)
    assert {found["runs"] for found in table["comparisons"]} == {1}
    rows = list(csv.DictReader((folder / "results.csv").read_text().splitlines()))
    assert len(rows) == len(ARMS) and {row["rounds"] for row in rows} == {"6"}


@pytest.mark.conformance
def test_placement_alone_changes_no_weight_but_the_bill(everything):
    _, folder = everything
    weights = {
        arm: json.loads((folder / "runs" / f"{arm}-s2" / "summary.json").read_text())["weights_sha256"]
        for arm in ("marless-minus", "packed")
    }
    assert weights["marless-minus"] == weights["packed"]
    _, _, ours, auto, packed, *_ = json.loads((folder / "table.json").read_text())["comparisons"]
    assert packed["ratios"]["dollars"]["value"] < 1 and packed["differences"]["final"]["value"] == 0
    assert auto["means"]["dollars"] < ours["means"]["dollars"]


@pytest.mark.conformance
def test_constant_arm_has_mean_rollouts_of_paper(everything):
    _, folder = everything
    rollouts = json.loads((folder / "ablation.json").read_text())["rollouts"]["constant-mean"]
    rows = [json.loads(line) for line in (folder / "runs" / "constant-mean-s2" / "metrics.jsonl").open()]
    assert {row["rollouts"] for row in rows} == {rollouts} and rollouts in (1, 2)


@pytest.mark.conformance
def test_a_cell_is_the_run_that_train_gives(everything, marless):
    _, folder = everything
    assert marless("train", *TINY, "placement.rule=packed", "seed=2", "--run", "alone", "--workers", "1").code == 0
    alone, cell = (
        json.loads((runs / "summary.json").read_text())["weights_sha256"]
        for runs in (Path("runs/alone"), folder / "runs" / "packed-s2")
    )
    assert alone == cell


HEADLINE = "packed/marless-minus:dollars"
FEW = ("--arms", "marless-minus,packed", "--seeds", "1", "--out", "few")


@pytest.mark.slow
def test_existing_runs_are_reused_and_seeds_added(marless):
    one = (*FEW, "--arms", "packed")
    assert ablated(marless, *TINY, *one).code == 0
    other = ablated(marless, *TINY, *one, "stop.rounds=7")
    assert (other.code, other.err) == (
        2,
        ["marless: few holds an ablation with stop.rounds = 6, not 7; choose another `out`"],
    )
    before = Path("few/runs/packed-s1/summary.json").stat().st_mtime_ns
    said = ablated(marless, *TINY, *one, "--seeds", "1,2", "--json")
    events = [json.loads(line) for line in said.out]
    assert [(event["event"], event.get("seed"), event.get("status")) for event in events] == [
        ("run", 2, "finished"),
        ("finished", None, None),
    ]
    assert events[-1]["table"]["comparisons"][0]["runs"] == 2
    assert Path("few/runs/packed-s1/summary.json").stat().st_mtime_ns == before


def test_a_study_that_names_rules_compares_them(marless):
    keys = "seeds = [1]", "random = 0.0", f'headlines = ["{HEADLINE}"]', 'rules = ["marless-minus", "packed"]'
    study(Path("rules.toml"), head="\n".join(keys))
    said = marless("study", "rules.toml", "--json")
    assert (said.code, said.err) == (0, [])
    table = json.loads(said.out[-1])["table"]
    assert [row["arm"] for row in table["comparisons"]] == ["marless-minus", "packed"]
    assert table["random"] == 0 and "## Headlines" in Path("studies/rules/table.md").read_text()
    # The options of the old name continue the same folder.
    options = ("--random", "0", "--headline", HEADLINE, "--out", "studies/rules", "--json")
    assert ablated(marless, *SMALL, *FEW, *options).out == said.out[-1:]


@pytest.mark.conformance
def test_interrupted_ablation_continues_by_same_command(marless):
    settings = (*TINY, "stop.rounds=40", "evaluation.every=20", *FEW, "--workers", "2")
    command = [sys.executable, "-m", "marless.cli.app", "ablate", *settings]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        metrics = Path("few/runs/marless-minus-s1/metrics.jsonl")
        while process.poll() is None and not (metrics.is_file() and metrics.stat().st_size):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 130
    assert err.splitlines() == [
        OLD_NAME,
        "stopping the runs after their tasks in flight; press again to stop at once",
        "marless: stopped with 2 runs to go; the same command resumes",
    ]
    assert json.loads(Path("few/runs/marless-minus-s1/summary.json").read_text())["status"] == "interrupted"
    said = ablated(marless, *settings)
    assert (said.code, said.out[0]) == (0, "arms: 2, seeds: 1, runs: 2, of them finished: 0")
    weights = [
        json.loads(Path(f"few/runs/{name}-s1/summary.json").read_text())["weights_sha256"]
        for name in ("marless-minus", "packed")
    ]
    assert weights[0] == weights[1]


def test_each_run_has_its_own_process(marless):
    assert ablated(marless, *TINY, *FEW, "--workers", "3").code == 0
    spans = []
    for run in Path("few/runs").iterdir():
        attempts = [json.loads(line) for line in (run / "attempts.jsonl").open()]
        assert {attempt.get("slots", 1) for attempt in attempts} == {1}
        assert [log.name for log in (run / "workers").iterdir() if log.name != "zygote.log"] == ["1.log"]
        spans.append((attempts[0]["asked"], attempts[-1]["ended"]))
    assert len(spans) == 2 and max(begun for begun, _ in spans) < min(ended for _, ended in spans)


# Tasks in the user's folder: one that is as it should be, and one with a step that takes long.
MINE = """import time
from dataclasses import replace
from pathlib import Path
from mpe2 import simple_spread_v3

def good(**options):
    return simple_spread_v3.parallel_env(N=2, max_cycles=5, **options)

def slow(**options):
    env = good(**options)
    env.step = lambda actions: Path("stepping").touch() or time.sleep(60)
    return env
"""


def test_a_task_in_the_current_folder_is_found(marless):
    Path("mine.py").write_text(MINE)
    said = ablated(marless, *TINY, "task.name=pettingzoo:mine:good", "stop.rounds=1", *FEW)
    assert (said.code, said.err) == (0, [])


def test_a_second_signal_ends_an_ablation_at_once(marless):
    Path("mine.py").write_text(MINE)
    settings = (*TINY, "task.name=pettingzoo:mine:slow", *FEW, "--workers", "2")
    command = [sys.executable, "-m", "marless.cli.app", "ablate", *settings]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while process.poll() is None and not Path("stepping").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == f"{OLD_NAME}\n"
    assert process.stderr.readline() == "stopping the runs after their tasks in flight; press again to stop at once\n"
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130 and time.monotonic() - began < 30


def test_failed_run_is_named_and_others_count(marless):
    assert ablated(marless, *TINY, *FEW, "--arms", "marless-minus").code == 0
    Path("few/runs/packed-s1").mkdir()
    Path("few/runs/packed-s1/something").touch()
    said = ablated(marless, *TINY, *FEW)
    assert said.code == 1
    assert any("packed         seed 1   FAILED: there is something called" in line for line in said.out)
    assert said.err == ["marless: 1 of 2 runs failed; see few/runs"]
    assert "* packed, seed 1: there is something called" in Path("few/table.md").read_text()


def test_too_small_cap_is_named_and_leaves_nothing(marless):
    said = ablated(marless, *TINY, *FEW, "stop.dollars=1e-9")
    assert said.code == 1 and said.err == ["marless: no run of the baseline marless-minus finished; see few/runs"]
    reason = "FAILED: stop.dollars = 1e-09 is less than a first attempt may cost; raise it"
    assert [line.endswith(reason) for line in said.out[1:]] == [True, True]
    assert not list(Path("few/runs").iterdir())


@pytest.mark.conformance
def test_competing_sides_are_played_against_a_reference(marless):
    mixed = (*TINY, "task.options.mixed=true")
    assert marless("train", *mixed, "seed=9", "--run", "ref", "--workers", "1").code == 0
    said = ablated(marless, *mixed, *FEW, "--reference", "ref")
    assert (said.code, "Each side separately" in said.out) == (0, True)
    comparisons = json.loads(Path("few/table.json").read_text())["comparisons"]
    against = {f"signal{values} against {who}" for values in (3, 4) for who in ("random", "reference")}
    assert set(comparisons[0]["returns"]) == {"final", *against}
    # Placement changes no weight, so `packed` has the baseline's returns.
    assert comparisons[1]["returns"] == comparisons[0]["returns"]


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--arms", "mine"], "there is no arm called 'mine'; there are marless-minus, marless, ours"),
        (["--sharing", "mine"], "there is no sharing called 'mine'; there are none, all, paper, ours"),
        (["--arms", "ours,ours"], "the arm ours is given twice"),
        (["--arms", "ours,,packed"], "argument --arms: 'ours,,packed' is not a list"),
        (["--seeds", "3-1"], "'3-1' is not a list of seeds such as 1-10"),
        (["--seeds", "one"], "'one' is not a list of seeds"),
        (["--workers", "0"], "argument --workers: '0' is not a positive whole number"),
        (["--random", "nan"], "argument --random: 'nan' is not a finite number"),
        (["seed=3"], "seed=3: the seeds of an ablation are given by `seeds`"),
        (["placement.rule=fused"], "placement.rule=fused clashes with the arm marless-minus"),
        (["scaling.min_rollouts=9"], "scaling.min_rollouts: 9 is more than actors.rollouts"),
        (["--reference", "nobody"], "there is no run nobody"),
        (["nofile.toml"], "there is no file nofile.toml"),
        (["--out", "taken"], "taken holds file and is not the folder of an ablation; choose another `out`"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(marless, argv, says):
    Path("taken").mkdir()
    Path("taken/file").touch()
    said = ablated(marless, *SMALL, *argv)
    assert (said.code, len(said.err)) == (2, 1) and says in said.err[0]
    assert sorted(path.name for path in Path().iterdir()) == ["taken"]


def test_one_kind_of_agent_has_no_opponents(marless):
    assert marless.train("ref").code == 0
    said = ablated(marless, *SMALL, "--reference", "ref")
    assert said.code == 2 and "no opponents to play against" in said.err[0]


def test_rules_without_choices_are_remarked_on(marless):
    said = ablated(marless, *SMALL, "--arms", "ours", "--seeds", "1", "stop.rounds=1")
    assert said.code == 0 and said.err[0].startswith("actors.rollouts = 1: the scaling rules have nothing to choose")
