"""A run with graded episodes in one process: all views show the judge's own count."""

import json

import pytest
from commands import SMALL, Commands

JUDGE = """
import json

def grade(question):
    with open("asked", "a") as file:
        file.write(f"{len(question)}\\n")
    return json.dumps(len(json.loads(question)["steps"])).encode()
"""
SETTINGS = ("task.judge=judge", "resources.judge.serve=counting_judge:grade", "evaluation.every=1")


@pytest.fixture(params=["false", "true"], ids=["asked anew", "kept"])
def graded(request, tmp_path, shell, capfd):
    """A run, whether it keeps answers, and how often its judge was asked."""
    shell.cd(tmp_path)
    (tmp_path / "counting_judge.py").write_text(JUDGE)
    marless = Commands(capfd)
    kept = f"resources.judge.keep={request.param}"
    said = marless("train", *SMALL, *SETTINGS, kept, "stop.rounds=2", "--backend", "inline", "--run", "r")
    assert said.code == 0, said.err
    return marless, tmp_path / "runs/r", request.param == "true", len((tmp_path / "asked").read_text().splitlines())


def test_every_view_of_run_has_count_of_judge(graded):
    marless, folder, kept, calls = graded
    summary = json.loads((folder / "summary.json").read_text())
    actions = summary["actions"]["judge"]
    assert actions["count"] == calls and summary["dollars"]["actions"] == pytest.approx(actions["dollars"])
    stored = list((folder / "objects/answers").iterdir()) if kept else []
    assert len(stored) == (calls if kept else 0)
    attempts = [json.loads(line) for line in (folder / "attempts.jsonl").read_text().splitlines()]
    used = [each["usage"]["actions"]["judge"] for each in attempts if "actions" in each["usage"]]
    assert sum(each.get("count", 0) for each in used) == calls
    assert sum(len(each.get("actions", ())) for each in attempts) == calls
    lines = [json.loads(line)["actions"]["judge"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert all(each["timed"] == each["count"] and each["mean_ms"] <= each["p99_ms"] * 1.01 for each in lines)
    bill = json.loads(marless("status", "--bill", "r", "--json").out[0])
    assert bill["actions"]["judge"]["count"] == calls
    said = marless("status", "--bill", "r")
    assert any(line.split()[:3] == ["judge", f"{calls:,}", f"{actions['hits']:,}"] for line in said.out)
    assert all(len(line) <= 80 for line in said.out)
    assert marless("report", "--timeline", "r").code == 0 and "judge" in (folder / "timeline.html").read_text()
    verified = json.loads(marless("runs", "verify", "r", "--json").out[0])
    assert (verified["ok"], verified["answers"]) == (True, len(stored))
    # The records of questions are deleted with the objects of their round.
    assert not list(folder.rglob("*.actions.safetensors"))


@pytest.mark.parametrize("graded", ["true"], indirect=True)
def test_unreadable_cached_answer_is_found(graded):
    marless, folder, _, _ = graded
    damaged = next((folder / "objects/answers").iterdir())
    damaged.write_bytes(b"\xc1")
    said = marless("runs", "verify", "r")
    assert said.code == 1 and f"answers/{damaged.name}" in said.out[0]


SAME = """
import os, time

def grade(question):
    time.sleep(0.05)  # so that others ask the same meanwhile
    with open(os.environ["ASKED"], "a") as file:
        file.write("asked\\n")
    return b"0.5"
"""


def test_question_of_two_tasks_is_billed_once(tmp_path, shell, capfd, processes):
    """Short episodes of few signals repeat, and tasks run side by side."""
    shell.cd(tmp_path)
    shell.export(ASKED=str(tmp_path / "asked"))
    (tmp_path / "one_grade.py").write_text(SAME)
    settings = (
        *("task.judge=judge", "resources.judge.serve=one_grade:grade", "resources.judge.keep=true"),
        *("resources.judge.slots=2", "actors.rollouts=4", "actors.num_envs=2", "stop.rounds=2", "evaluation.every=1"),
    )
    said = Commands(capfd)("train", *SMALL, *settings, "--run", "r", "--workers", "2")
    assert said.code == 0, said.err
    calls = len((tmp_path / "asked").read_text().splitlines())
    actions = json.loads((tmp_path / "runs/r/summary.json").read_text())["actions"]["judge"]
    assert actions["count"] == calls == len(list((tmp_path / "runs/r/objects/answers").iterdir()))
    assert actions["hits"] > 0
