"""A study in the emulated account: governed by the deployed coordinator, with the bytes of a local study."""

import json
import os
import signal
import subprocess
import sys

import pytest

BASE = """
seeds = "1-2"
pool.workers = {slots}
owner = "anna"
owners.anna.weight = 2.0
{more}
[base]
task.name = "toy/signal"
algorithm.hidden = [8]
actors.num_envs = 8
evaluation.every = 2
evaluation.episodes = 4
evaluation.final_episodes = 4
stop.rounds = {rounds}
actors.rollouts = 2
"""
GRID = "[vary]\nalgorithm.lr = [3e-4, 1e-3, 3e-3]\n"


class Studies:
    def __init__(self, place, marless):
        self.place, self.marless = place, marless

    def file(self, name, settings=GRID, more="", rounds=2, slots=3):
        path = self.place.home / f"{name}.toml"
        path.write_text(BASE.format(more=more, rounds=rounds, slots=slots) + settings)
        return path.name

    def begin(self, name, *arguments, **file):
        said = self.marless("study", self.file(name, **file), "--backend", "emulated", *arguments)
        assert said.code == 0, said.err
        return said

    def wait(self, *names, sweeping=False, limit_s=400.0):
        """Returns the most runs of these studies that were live at once."""
        lists = self.place.wait([f"study:{name}" for name in names], sweeping, limit_s)
        heads = tuple(f"{name}." for name in names)
        return max((sum(run.startswith(heads) for run in live) for live in lists), default=0)

    def summaries(self, folder):
        paths = sorted((self.place.home / folder / "runs").glob("*/summary.json"))
        return {path.parent.name: json.loads(path.read_text()) for path in paths}

    def told(self, name):
        """The exit code of the command that fetches the study, and its line about each run."""
        said = self.marless("study", name, "--json")
        events = [json.loads(line) for line in said.out]
        return said.code, {event["name"]: event for event in events if event["event"] == "run"}

    def same_as_local(self, name):
        """Compares with the same study on this machine. Returns the names of its runs."""
        assert self.marless("study", f"{name}.toml", "--out", f"local-{name}", "--workers", "1").code == 0
        here, there = self.summaries(f"local-{name}"), self.summaries(f"studies/{name}")
        for run in here:
            for key in ("weights_sha256", "final_return", "rounds", "env_steps", "status"):
                assert here[run][key] == there[run][key]
        assert here.keys() == there.keys()
        return list(here)


@pytest.fixture
def studied(place, marless):
    return Studies(place, marless)


@pytest.mark.slow
def test_study_continues_with_local_weights_after_killed_command(place, marless, studied):
    file = studied.file("closed")
    command = [sys.executable, "-m", "marless.cli.app", "study", file, "--backend", "emulated"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert "6 runs begin in the cloud, 3 functions at once" in process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
    assert 1 <= studied.wait("closed") <= 3 + 1  # a run is listed for a moment after its end
    code, runs = studied.told("closed")
    assert code == 0 and {run["status"] for run in runs.values()} == {"finished"}
    names = studied.same_as_local("closed")
    assert len(names) == 6 and all(runs[name]["dollars"] > 0 for name in names)
    path = f"studies/closed/runs/{names[0]}"
    assert marless("evaluate", path, "--episodes", "4").code == 0
    assert not any(marless(*line.split(), path).code for line in ("status", "status --follow", "runs verify"))
    lines = (place.home / path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["round"] for line in lines] == [1, 2]


def test_study_is_fetched_elsewhere_and_its_folder_renamed(place, marless, studied):
    studied.begin("far", settings="[vary]\nalgorithm.lr = [1e-3]\n")
    folder = place.home / "studies"
    (folder / "far").rename(folder / "moved")
    studied.wait("far")
    assert marless("study", "moved").code == 0
    assert marless("study", "far", "--backend", "emulated").code == 0
    near, far = studied.summaries("studies/moved"), studied.summaries("studies/far")
    assert len(far) == 2
    assert {name: run["weights_sha256"] for name, run in near.items()} == {
        name: run["weights_sha256"] for name, run in far.items()
    }
    again = marless("study", "far.toml", "--backend", "emulated", "--out", "elsewhere/far")
    assert again.code == 2 and "has a study far already" in again.err[0]


def test_owner_cap_holds_and_failed_run_is_isolated(marless, studied):
    settings = """
[[setting]]
name = "wrong"
values.opponents.side = 0
[[setting]]
name = "poor"
owner = "ben"
values.stop.rounds = 500
values.placement.rule = "fused"
[[setting]]
name = "free"
"""
    studied.begin("mixed", settings=settings, more="owners.ben.dollars = 0.0108\n")
    studied.wait("mixed")
    code, runs = studied.told("mixed")
    assert code == 1
    assert [runs[f"free-s{seed}"]["status"] for seed in (1, 2)] == ["finished"] * 2
    assert [runs[f"wrong-s{seed}"]["status"] for seed in (1, 2)] == ["failed"] * 2
    assert "opponents.side: 0 is asked for" in runs["wrong-s1"]["reason"]
    poor = [runs[f"poor-s{seed}"] for seed in (1, 2)]
    assert 0 < sum(run["dollars"] for run in poor) <= 0.0108
    assert all(0 < run["round"] < 500 and run["reason"] == "dollars" for run in poor)


@pytest.mark.slow
def test_governor_survives_kills_after_writes_and_events(place, marless, studied):
    """Writes of a governor to its study's ledger and list, and then to the ledgers of the runs that it begins."""
    names, settings = [f"killed{number}" for number in range(5)], "[vary]\nalgorithm.lr = [1e-3]\n"
    for number, name in enumerate(names):
        key = f"study:{name}" if number < 2 else f"{name}."
        rule = {"service": "", "action": "write", "functions": True, "key": key, "fault": "kill", "skip": number % 3}
        place.inject(rule)
        studied.begin(name, settings=settings, rounds=1, slots=1)
    studied.wait(*names, sweeping=True)
    assert len(place.struck()) == len(names)
    assert all(studied.told(name)[0] == 0 for name in names)
    assert len(studied.same_as_local(names[0])) == 2
    expected = {run: found["weights_sha256"] for run, found in studied.summaries(f"local-{names[0]}").items()}
    for name in names:
        found = studied.summaries(f"studies/{name}")
        assert {run: one["weights_sha256"] for run, one in found.items()} == expected


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ("halving.rungs = [1]", "halving"),
        ('search.rule = "optuna"\nsearch.settings = 2\nsearch.parallel = 1', "search.rule"),
        ("search.parallel = 2", "search.parallel"),
    ],
)
def test_unsupported_cloud_study_options_are_refused_by_name(marless, studied, more, named):
    said = marless("study", studied.file("refused", more=more), "--backend", "emulated")
    assert said.code == 2 and len(said.err) == 1 and f"{named}:" in said.err[0]


def test_local_study_does_not_move_to_cloud(marless, studied):
    file = studied.file("here", settings="[vary]\nalgorithm.lr = [1e-3]\n", rounds=1)
    assert marless("study", file, "--workers", "1").code == 0
    said = marless("study", file, "--backend", "emulated")
    assert said.code == 2 and "holds a study on this machine" in said.err[0]


def test_stopped_study_ends_its_runs_resumably(marless, studied):
    studied.begin("long", settings="[vary]\nalgorithm.lr = [1e-3, 3e-3]\n", rounds=500)
    assert marless("study", "long", "--stop").code == 0
    studied.wait("long", sweeping=True)
    code, runs = studied.told("long")
    stopped = [name for name, run in runs.items() if run["status"] == "interrupted"]
    assert code == bool(stopped) and len(stopped) <= 3
    assert all(run["status"] == "new" for name, run in runs.items() if name not in stopped)
    for name in stopped[:1]:
        said = marless("resume", f"studies/long/runs/{name}", "stop.rounds=2")
        assert said.code == 0, said.err
