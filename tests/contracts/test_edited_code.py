"""Files of a user's code are edited while a pool's processes load and read them: no answer mixes two states."""

import json
import os
import random

import edited_code
import pytest
from asking import collect
from attempts import attempt_of

from marless.functions.encoding import from_json
from marless.functions.messages.exchange import Failed
from marless.infra.local.single_run_pool import WorkerPool
from marless.runs.integrity.code_record import CodeRecord


@pytest.fixture
def code(tmp_path, shell):
    shell.cd(tmp_path)
    edited_code.begin()
    return tmp_path


def answers(code, seed, tasks, most_s, dying):
    """The answers of two processes while files are edited, the lines of refused tasks, and the record of the code."""
    draw, record = random.Random(seed), CodeRecord(code, "r")
    # Data that changes after a task has started a program counts as the program's own.
    program = seed % 2 == 1
    names = [name for name in edited_code.FILES if not program or name != edited_code.DATA]
    with WorkerPool(2, code / "run" / "objects", {"actor": "edited_player"}) as pool:
        pool.compare_code(record.refusal)
        with edited_code.Editor(seed, most_s, names):
            for number in range(tasks):
                deed = {"sleeps": draw.uniform(0, 0.1), "dies": draw.random() < dying, "program": program}
                pool.invoke(attempt_of("actor", f"{number}", 0, json.dumps(deed).encode(), 60.0))
            reports = collect(pool, tasks)
    bodies = [report.body for report in reports.values() if report.outcome == "answered"]
    refused = [from_json(body, Failed).message for body in bodies if b'"failed"' in body]
    return [json.loads(body) for body in bodies if b'"failed"' not in body], refused, record


def is_of_one_state(code, seed, tasks, most_s, dying=0.2):
    values, refused, record = answers(code, seed, tasks, most_s, dying)
    for value in values:
        digests = {name: edited_code.digest(name, one) for name, one in zip(edited_code.FILES, value, strict=False)}
        assert digests == {name: record.files[name] for name in digests}
    for line in refused:
        assert " was " in line and line.endswith("marless resume r --changed-code") and "\n" not in line
    return len(values), len(refused)


def test_without_an_edit_all_answers_are_taken(code):
    assert is_of_one_state(code, 1, 2, 1000.0, dying=0.0) == (2, 0)


@pytest.mark.parametrize("seed", [1, 2])
def test_no_answer_mixes_two_states_of_the_code(code, seed):
    is_of_one_state(code, seed, 4, 0.2)


def test_edited_file_never_uses_stale_bytecode(code, shell):
    """Python takes a cache for a fresh one where the file has the same size and the same second."""
    shell.unset("PYTHONDONTWRITEBYTECODE")
    with WorkerPool(1, code / "run" / "objects", {"actor": "edited_player"}) as pool:
        deed = {"sleeps": 0, "dies": False, "program": True}
        for value in (1, 2, 3):
            edited_code.write("edited_rubric.py", value)
            os.utime("edited_rubric.py", (1e9, 1e9))
            pool.invoke(attempt_of("actor", f"{value}", 0, json.dumps(deed).encode(), 60.0))
            assert json.loads(collect(pool, 1)[f"{value}"].body)[-1] == value


@pytest.mark.slow
def test_no_answer_mixes_two_states_of_code(code):
    counts = [is_of_one_state(code, seed, 8, 0.3) for seed in range(100, 108)]
    assert sum(taken for taken, _ in counts) and sum(refused for _, refused in counts)
