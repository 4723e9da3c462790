"""Studies of tiny runs through the command line have the weights of separate runs."""

import dataclasses
import json
import random
import threading
import time
from contextlib import chdir

import pytest
from studies import EACH_ONCE, HARM, bad_neighbour, begin, hashes, setting, settings_of, study, train_alone

from marless.loggers import progress_csv, registry
from marless.loggers.base import Logger
from marless.runs import run_log


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The weights of the runs of `EACH_ONCE`, each trained by itself."""
    folder = tmp_path_factory.mktemp("alone")
    with chdir(folder):
        train_alone((1, 2), names=EACH_ONCE)
    return hashes(folder)


def test_study_runs_have_weights_of_separate_runs(marless, tmp_path, alone):
    study(tmp_path / "all.toml", *settings_of(EACH_ONCE))
    said = marless("study", "all.toml", "--json")
    assert (said.code, said.err) == (0, [])
    assert hashes(tmp_path / "studies/all") == alone and len(alone) == 8
    one = marless("resume", "studies/all/runs/ippo-signal-s1", "stop.rounds=6")
    assert one.code == 0
    assert marless("runs", "verify", "studies/all/runs/ippo-signal-s1").code == 0


@pytest.mark.slow
def test_killed_study_continues_to_same_weights(tmp_path, alone):
    study(tmp_path / "all.toml", *settings_of(EACH_ONCE))
    draw = random.Random(3)
    for _ in range(3):
        process = begin(tmp_path, "all.toml")
        time.sleep(draw.uniform(0.4, 1.2))
        process.kill()
        process.communicate()
    process = begin(tmp_path, "all.toml")
    output, _ = process.communicate(timeout=200)
    assert process.returncode == 0, output
    assert hashes(tmp_path / "studies/all") == alone


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize("harm", HARM)
def test_a_bad_neighbour_changes_no_other_run(marless, tmp_path, alone, harm):
    head = 'seeds = "1-2"\npool.workers = 2\npool.memory_mb = 1500\n'
    study(tmp_path / "beside.toml", bad_neighbour(harm), *settings_of(("ippo-signal", "iql-signal")), head=head)
    said = marless("study", "beside.toml")
    found = hashes(tmp_path / "studies/beside")
    assert {run: found[run] for run in found if not run.startswith("bad")} == {
        run: sha256 for run, sha256 in alone.items() if run.startswith(("ippo", "iql"))
    }
    if harm in ("flood", "leak"):
        assert said.code == 0
        # A process that holds too much is replaced.
        assert (len(list(tmp_path.glob("studies/beside/workers/[0-9]*.log"))) > 2) == (harm == "leak")
    else:
        assert said.code == 1 and f"did not finish, the first: bad-{harm}-s1" in said.err[-1]


class Misplaced(Logger):
    name, summary = "csv", "fails"

    def __init__(self, runs):
        self._runs = runs

    def open(self, run):
        folder = run.folder / "gone" if run.name in self._runs else run.folder
        return progress_csv.LOGGER.open(dataclasses.replace(run, folder=folder))


LOGGED = 'seeds = "1-8"\npool.workers = 2\nbase.log.to = ["csv"]\n'
UNLOGGED = [f"a-s{seed}" for seed in range(2, 9)]
# Taken by the registry, which gets the name of this module.
LOGGER = Misplaced(UNLOGGED)


@pytest.mark.slow
def test_failing_logger_is_reported_once_with_its_runs(marless, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(registry.BUILT_IN, "csv", __name__)
        study(tmp_path / "logged.toml", setting("a", []), head=LOGGED)
        said = marless("study", "logged.toml")
    assert said.code == 0
    (line,) = said.err
    assert line.startswith("a-s") and "has no log in csv any more, other runs may follow: FileNotFoundError" in line
    (told,) = (line for line in said.out if "not logged" in line)
    assert told == (
        "not logged to the end in csv: a-s2, a-s3, a-s4, a-s5, a-s6 and 2 more; for each of them: marless log"
        " studies/logged/runs/a-s2 --to csv"
    )
    rows = len((tmp_path / "studies/logged/runs/a-s1/progress.csv").read_text().splitlines())
    assert rows > 4
    assert marless("log", "studies/logged/runs/a-s2", "--to", "csv").code == 0
    assert len((tmp_path / "studies/logged/runs/a-s2/progress.csv").read_text().splitlines()) == rows


class Stuck(Logger):
    name, summary = "csv", "waits"

    def __init__(self):
        self.release = threading.Event()

    def open(self, run):
        self.release.wait()
        raise ConnectionError


def test_study_waits_once_for_silent_loggers(marless, tmp_path, monkeypatch):
    stuck = Stuck()
    monkeypatch.setattr(progress_csv, "LOGGER", stuck)
    monkeypatch.setattr(run_log, "PATIENCE_S", 3.0)
    study(tmp_path / "logged.toml", setting("a", []), head=LOGGED)
    began = time.monotonic()
    try:
        said = marless("study", "logged.toml")
    finally:
        stuck.release.set()
    waited = time.monotonic() - began
    assert said.code == 0 and sum("it has not taken everything within 3 s" in line for line in said.err) == 1
    # Eight runs would wait for 24 seconds.
    assert 3 < waited < 24
    assert "a-s1, a-s2, a-s3, a-s4, a-s5 and 3 more" in " ".join(said.out)
    assert len(hashes(tmp_path / "studies/logged")) == 8


def test_json_tells_of_a_logger_too(marless, tmp_path, monkeypatch):
    monkeypatch.setitem(registry.BUILT_IN, "csv", __name__)
    study(tmp_path / "logged.toml", setting("a", []), head=LOGGED)
    said = marless("study", "logged.toml", "--json")
    events = [json.loads(line) for line in said.out]
    (told,) = (event for event in events if event["event"] == "unlogged")
    assert told["run"] in UNLOGGED and told["logger"] == "csv" and "FileNotFoundError" in told["problem"]
    unlogged = {event["name"]: event["unlogged"] for event in events if event["event"] == "run"}
    assert unlogged == {"a-s1": [], **{name: ["csv"] for name in UNLOGGED}}


def test_successive_halving_keeps_best_and_records_reasons(marless, tmp_path):
    rates = [setting(f"lr{rate}", [f"algorithm.lr={rate}"]) for rate in ("0.0001", "0.01", "0.003")]
    path = tmp_path / "lr.toml"
    study(path, *rates, head='seeds = "1-2"\nhalving.rungs = [3]\npool.workers = 2\n')
    assert marless("study", "lr.toml").code == 0
    folder = tmp_path / "studies/lr"
    decided = [json.loads(line) for line in (folder / "decisions.jsonl").read_text().splitlines()]
    (halved,) = (one for one in decided if one["type"] == "halved")
    means = {name: sum(scores.values()) for name, scores in halved["scores"].items()}
    assert halved["promoted"] == [max(means, key=means.get)] and len(halved["stopped"]) == 2
    assert set(hashes(folder)) == {f"{halved['promoted'][0]}-s{seed}" for seed in (1, 2)}
    stopped = halved["stopped"][0]
    rounds = json.loads((folder / f"runs/{stopped}-s1/summary.json").read_text())["rounds"]
    assert rounds == 3
    before = (folder / "decisions.jsonl").read_bytes()
    assert marless("study", "lr").code == 0 and (folder / "decisions.jsonl").read_bytes() == before
    assert marless("resume", f"studies/lr/runs/{stopped}-s1").code == 0


@pytest.mark.slow
def test_owner_cap_holds_for_all_owned_runs(marless, tmp_path):
    settings = [setting("a", [], "anna"), setting("b", [], "ben")]
    study(tmp_path / "caps.toml", *settings, head='seeds = "1-2"\n')
    assert marless("study", "caps.toml").code == 0
    summaries = [json.loads(path.read_text()) for path in tmp_path.glob("studies/caps/runs/*/summary.json")]
    cost = sum(found["dollars"]["total"] for found in summaries if found["run"].startswith("a"))
    cap = 0.6 * cost
    head = f'seeds = "1-2"\nowners.anna.dollars = {cap:.9f}\npool.workers = 1\n'
    study(tmp_path / "capped.toml", *settings, head=head)
    marless("study", "capped.toml")
    by_run = {
        found["run"]: found
        for found in (json.loads(path.read_text()) for path in tmp_path.glob("studies/capped/runs/*/summary.json"))
    }
    assert sum(found["dollars"]["total"] for run, found in by_run.items() if run.startswith("a")) <= cap
    assert {found["rounds"] for run, found in by_run.items() if run.startswith("b")} == {4}
    # A run that may not begin at all leaves no summary.
    assert min(by_run[run]["rounds"] if run in by_run else 0 for run in ("a-s1", "a-s2")) < 4


def test_study_accepts_more_seeds_but_not_other_settings(marless, tmp_path):
    study(tmp_path / "some.toml", setting("a", []), head='seeds = "1"\n')
    assert marless("study", "some.toml").code == 0
    study(tmp_path / "some.toml", setting("a", []), head='seeds = "1-2"\n')
    assert marless("study", "some.toml").code == 0
    assert set(hashes(tmp_path / "studies/some")) == {"a-s1", "a-s2"}
    study(tmp_path / "some.toml", setting("a", ["algorithm.lr=0.5"]))
    said = marless("study", "some.toml")
    assert said.code == 2 and "holds a study with another `setting`" in said.err[-1]


WRONG = {
    "seeds = 1.5\n": "seeds: a number is not a text or a list",
    'seeds = "x"\n': "is not a list of seeds",
    "vary.algorithm.lr = 3\n": "vary.algorithm.lr: give a list of values, or a range",
    "vary.algorithm.lr = {low = 1, high = 1}\n": "low must be less than high",
    "vary.algorithm.lr = {low = 1.0, high = 2.0}\n": "a grid needs a list of values",
    "vary.algorithm.speed = [1]\n": "there is no key algorithm.speed",
    "base.stop.seconds = 3\n": "stop.seconds would count waiting for other runs",
    "halving.rungs = [10]\n": "no run is evaluated before round 11",
    "base.evaluation.every_steps = 100\nhalving.rungs = [10]\n": "halving compares after rounds, so set",
    "base.pipeline.lag = 8\nbase.evaluation.every = 5\nhalving.rungs = [10]\n": "no run that has learned is evaluated"
    " before round 11 (evaluation.every and pipeline.lag)",
    'search.rule = "luck"\n': "there is no search 'luck'",
    'search.rule = "random"\n': "say how many settings to try",
    'config = "missing.toml"\n': "there is no file",
    "pool.workers = 0\n": "pool.workers: it is not a whole number of at least 1",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_file_is_refused_in_one_line(marless, tmp_path, text):
    (tmp_path / "wrong.toml").write_text(text)
    said = marless("study", "wrong.toml")
    assert said.code == 2 and len(said.err) == 1 and WRONG[text] in said.err[0], said.err
    assert not (tmp_path / "studies/wrong/study.json").exists()
