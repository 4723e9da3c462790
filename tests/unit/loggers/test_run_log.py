"""Runs that are logged during training: users' views, failures, and equality with runs without a log."""

import csv
import json
from pathlib import Path
from threading import Event

import msgspec
import pytest
from commands import SMALL
from installed_plug_ins import install

from marless.comparison import run_evaluations
from marless.loggers import progress_csv
from marless.loggers.base import Logger
from marless.loggers.valid_names import Names
from marless.runs import run_log, summary
from marless.runs.folder import RunFolder
from marless.runs.run_log import logged_run

pytestmark = pytest.mark.usefixtures("no_processes")

CSV = 'log.to=["csv"]'


def rows(name, *columns):
    with progress(name).open(newline="") as file:
        return [tuple(row[column] for column in columns) for row in csv.DictReader(file)]


def progress(name):
    return Path("runs") / name / "progress.csv"


def journal(name):
    lines = [json.loads(text) for text in (progress(name).parent / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in ("seconds", "dollars")} for line in lines]


def weights(name):
    return json.loads((progress(name).parent / "summary.json").read_text())["weights_sha256"]


class Stuck(Logger):
    name, summary = "stuck", "waits"

    def __init__(self, release):
        self._release = release

    def open(self, run):
        self._release.wait()
        raise ConnectionError


class Failing(Logger):
    name, summary = "failing", "fails"

    def open(self, run):
        return self

    where = "nowhere"

    def write(self, point):
        if point.number > 2:
            raise ConnectionError("the server is gone")

    def finish(self, artefacts, status):
        raise AssertionError("a log that failed gets nothing more")

    def close(self):
        pass


@pytest.fixture
def failing(monkeypatch):
    monkeypatch.setattr(progress_csv, "LOGGER", Failing())


class Renaming(Logger):
    name, summary, where = "renaming", "renames", "nowhere"

    def __init__(self):
        self._names = Names(lambda name: name.replace("/", "_"))

    def open(self, run):
        return self

    @property
    def renamed(self):
        return self._names.replacements

    def write(self, point):
        self._names.of(point.scalars)

    def finish(self, artefacts, status):
        pass

    def close(self):
        pass


def test_names_that_a_store_refuses_are_told_once(marless, monkeypatch):
    monkeypatch.setattr(progress_csv, "LOGGER", Renaming())
    trained, after = marless.train("first", CSV), marless("log", "first")
    for said in (trained, after):
        told = [line for line in said.out + said.err if "csv does not take every name" in line]
        assert said.code == 0 and len(told) == 1 and "'return/train' is 'return_train' there, and" in told[0]


def test_run_has_row_per_round_and_final_return(marless):
    assert marless.train("first", CSV).code == 0
    found = json.loads((progress("first").parent / "summary.json").read_text())
    lines = [json.loads(text) for text in (progress("first").parent / "metrics.jsonl").read_text().splitlines()]
    assert [(int(steps), float(value)) for steps, value in rows("first", "env_steps", "return/train")] == [
        (line["env_steps"], line["return_mean"]) for line in lines
    ]
    # Round 3 samples while the policies of round 2 are evaluated.
    evaluations = [value for (value,) in rows("first", "return/eval")]
    returns = lines[2]["evaluation"]["returns"]
    assert evaluations[0] == evaluations[2] == "" and float(evaluations[1]) == sum(returns) / len(returns)
    assert float(evaluations[3]) == pytest.approx(found["final_return"]["mean"])


def test_failing_log_changes_no_weight_or_journal(marless, failing):
    plain, logged = marless.train("plain"), marless.train("logged", CSV)
    assert (plain.code, logged.code) == (0, 0)
    assert weights("plain") == weights("logged")
    assert journal("plain") == journal("logged")


def test_blocked_log_delays_neither_training_nor_end(marless, monkeypatch):
    release = Event()
    monkeypatch.setattr(progress_csv, "LOGGER", Stuck(release))
    monkeypatch.setattr(run_log, "PATIENCE_S", 0.1)
    try:
        said = marless.train("first", CSV)
    finally:
        release.set()
    reported = [line for line in said.out + said.err if "it has not taken everything within 0.1 s" in line]
    assert said.code == 0 and len(reported) == 1
    assert json.loads((progress("first").parent / "summary.json").read_text())["rounds"] == 4


def test_environment_secrets_are_not_logged_settings(marless, shell):
    shell.export(MY_TOKEN="correct-horse-battery")
    marless.train("first")
    folder = RunFolder(Path("runs/first"))
    config = folder.config()
    task = msgspec.structs.replace(config.task, options={"key": "correct-horse-battery"})
    settings = logged_run(folder, folder.identity(), msgspec.structs.replace(config, task=task)).settings
    assert (settings["task.options.key"], settings["task.name"]) == ("<MY_TOKEN>", "toy/signal")


def test_differently_logged_runs_are_compared_as_one(marless):
    marless.train("plain")
    marless.train("logged", CSV)
    folders = [RunFolder(Path("runs") / name) for name in ("plain", "logged")]
    plain, logged = (
        run_evaluations.read(one.name, one.path, one.config(), summary.read(one)).config for one in folders
    )
    assert plain == logged and plain["task.name"] == "toy/signal"


def test_study_runs_have_own_logs_in_group(marless):
    settings = "\n".join(f"base.{text}" for text in (*SMALL, CSV) if not text.startswith("task"))
    Path("lr.toml").write_text(f'seeds = "1-2"\nbase.task.name = "toy/signal"\n{settings}\n')
    assert marless("study", "lr.toml", "--workers", "1").code == 0
    runs = [RunFolder(path) for path in sorted(Path("studies/lr/runs").iterdir())]
    logged = [logged_run(folder, folder.identity(), folder.config()) for folder in runs]
    assert [(run.name, run.group) for run in logged] == [("base-s1", "lr"), ("base-s2", "lr")]
    assert logged[0].id != logged[1].id
    assert [len((folder.path / "progress.csv").read_text().splitlines()) for folder in runs] == [5, 5]


def test_a_log_that_fails_is_reported_once(marless, failing):
    said = marless.train("first", CSV)
    reported = [line for line in said.out + said.err if "the server is gone" in line]
    assert len(reported) == 1 and "marless log first --to csv" in reported[0]


def test_resumed_run_continues_same_log(marless):
    marless.train("first", CSV)
    assert marless("resume", "first", "stop.rounds=6").code == 0
    assert [number for (number,) in rows("first", "time/round")] == ["1", "2", "3", "4", "5", "6"]


def test_run_logged_after_resume_has_earlier_rounds(marless):
    marless.train("first")
    assert marless("resume", "first", "stop.rounds=6", CSV).code == 0
    assert [number for (number,) in rows("first", "time/round")] == ["1", "2", "3", "4", "5", "6"]


def test_finished_run_is_logged_as_during_training(marless):
    marless.train("first", CSV)
    during = progress("first").read_bytes()
    progress("first").unlink()
    said = marless("log", "first")
    assert said.code == 0 and said.out[-1].split() == ["csv", str(progress("first"))]
    assert progress("first").read_bytes() == during


def test_a_logger_that_fails_afterwards_is_an_error(marless, failing):
    marless.train("first")
    said = marless("log", "first", "--to", "csv")
    assert said.code == 2
    assert said.err == ["marless: first could not be logged in csv: the server is gone"]


def test_unknown_logger_is_refused_before_run_begins(marless):
    said = marless.train("first", 'log.to=["tensorbord"]')
    assert said.code == 2 and "there is no logger tensorbord; known are csv, tensorboard, wandb, mlflow" in said.err[0]
    assert not progress("first").parent.exists()


def test_missing_package_is_refused_before_run_begins(marless, shell):
    shell.uninstall("tensorboardX")
    said = marless.train("first", 'log.to=["tensorboard"]')
    assert said.code == 2 and len(said.err) == 1
    assert "the logger tensorboard needs packages that are not installed" in said.err[0]
    assert not progress("first").parent.exists()


def test_logger_of_other_package_equals_built_in(marless, tmp_path, shell):
    install(tmp_path / "site", shell, "my_logger")
    assert marless.train("first", 'log.to=["best"]').code == 0
    assert (progress("first").parent / "best.txt").read_text().endswith("steps\n")
    assert "best" in " ".join(marless("log", "--help").out)
