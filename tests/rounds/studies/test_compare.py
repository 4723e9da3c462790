"""Comparisons of trained runs through the command line: their files, and refusals."""

import json
import shutil
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pytest
from commands import SMALL
from drawing_commands import with_pictures

from marless.cli.app import main

FILES = {"compare.md", "compare.csv", "marl-eval.json"}
PICTURES = {"aggregates.png", "sample_efficiency.png"}
ALGORITHMS = ("mappo", "ippo")
# Far more evaluations than one, so that none of these runs ends before another's first one, by any clock.
LONG = ("stop.rounds=16", "evaluation.every=1")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    with chdir(folder):
        for name in ALGORITHMS:
            for seed in (1, 2):
                settings = [*SMALL, f"algorithm.name={name}", f"seed={seed}", *LONG]
                assert main(["train", *settings, "--run", f"{name}-s{seed}", "--workers", "1"]) == 0
    (folder / "runs/latest").unlink()
    return folder / "runs"


@pytest.fixture
def trained(marless, runs):
    shutil.copytree(runs, "studies/mine/runs")
    return marless


def mean_return(run, evaluation):
    document = json.loads(Path(f"studies/mine/runs/{run}/evaluations.json").read_text())
    for _ in range(4):
        (document,) = document.values()
    returns = document[evaluation]["return"]
    return sum(returns) / len(returns)


@pytest.mark.slow
def test_runs_of_a_study_are_compared(trained):
    said = trained("compare", "mine", "--by", "algorithm.name", "--json")
    assert said.code == 0
    (event,) = map(json.loads, said.out)
    found = event["comparison"]
    assert (event["event"], event["folder"], found["at"], found["ends_first"]) == ("compared", "comparison", 640, "")
    by_arm = {row["arm"]: row for row in found["equal"]}
    # The last evaluation of 16 rounds of 8 x 5 steps. Of two seeds none is dropped.
    for name in ALGORITHMS:
        means = [mean_return(f"{name}-s{seed}", "step_15") for seed in (1, 2)]
        assert by_arm[name]["iqm"]["value"] == pytest.approx(sum(means) / 2)
    assert FILES <= {path.name for path in Path("comparison").iterdir()} <= FILES | PICTURES
    merged = json.loads(Path("comparison/marl-eval.json").read_text())
    assert {arm: set(seeds) for arm, seeds in merged["toy"]["signal"].items()} == {
        arm: {"seed_1", "seed_2"} for arm in ALGORITHMS
    }
    written = {path: path.read_bytes() for path in Path("comparison").iterdir()}
    again = trained("compare", "studies/mine")
    assert again.code == 0 and {path: path.read_bytes() for path in written} == written
    assert again.out[0] == "2 arms over 2 seeds on toy/signal, at 640 environment steps, where all runs end"
    for axis in ("seconds", "dollars"):
        said = trained("compare", "mine", "--at", axis, "--out", axis)
        # Where the machine stalls, one run may end before another's first evaluation.
        apart = said.code == 2 and "there is no point at which both can be compared" in said.err[0]
        assert apart or (said.code == 0 and Path(axis, "compare.csv").is_file())


def test_pictures_are_drawn(trained):
    command = [sys.executable, "-m", "marless.cli.app", "compare", "mine", "--out", "deep/er"]
    done = subprocess.run(command, env=with_pictures(), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    # Two seeds are too few for performance profiles.
    assert {path.name for path in Path("deep/er").iterdir()} == FILES | PICTURES
    assert "![aggregates](aggregates.png)" in Path("deep/er/compare.md").read_text()


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([], "the following arguments are required: RUN_OR_STUDY"),
        (["nobody"], "there is no run, study or ablation nobody"),
        (["alone", "--by", "algorithm.lx"], "no run has this key in its configuration; did you mean algorithm.lr?"),
        (["alone", "--by", "a,,b"], "argument --by: 'a,,b' is not a list of keys"),
        (["alone", "--at", "rounds"], "argument --at: invalid choice: 'rounds'"),
        (["alone", "--out", "file"], "cannot write into file"),
    ],
)
def test_bad_input_is_one_line(marless, argv, says):
    Path("file").touch()
    if argv:
        assert marless.train("alone").code == 0
    said = marless("compare", *argv)
    assert (said.code, len(said.err)) == (2, 1) and says in said.err[0]
    assert not Path("comparison").exists()
