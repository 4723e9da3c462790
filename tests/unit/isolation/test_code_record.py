"""The record of a run's code, and its comparison with later files."""

import hashlib
from pathlib import Path

import pytest

from marless.coordinator.config.loading import convert
from marless.functions.isolation.file_names import ABSENT, KEPT, LOADED, WRITTEN
from marless.runs.integrity.code_record import CodeRecord


@pytest.fixture
def here(tmp_path, shell):
    shell.cd(tmp_path)
    shell.import_from(tmp_path)
    return tmp_path


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def write(name, text):
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(text)
    return digest(text)


def graded(**judge):
    return convert({"task": {"name": "toy/signal", "judge": "judge"}, "resources": {"judge": judge}}, "a test")


def test_run_records_named_modules_and_their_imports(here):
    write("recorded_judge.py", "import json\nfrom recorded_rubrics.short import score\n")
    write("recorded_rubrics/__init__.py", "from . import words\n")
    write("recorded_rubrics/words.py", "")
    write("recorded_rubrics/short.py", "from .words import *\n")
    write("recorded_rubrics/unused.py", "")
    record = CodeRecord(here, "r")
    assert record.begin(graded(serve="recorded_judge:grade")) == ""
    package = {"__init__", "words", "short"}
    assert {*record.files} == {"recorded_judge.py", *(f"recorded_rubrics/{name}.py" for name in package)}
    assert CodeRecord(here, "r").files == record.files


def test_run_records_program_started_by_command(here):
    write("recorded_program.py", "import recorded_beside\n")
    beside, data = write("recorded_beside.py", ""), write("weights.txt", "1")
    record = CodeRecord(here, "r")
    assert record.begin(graded(command="python3 recorded_program.py --weights weights.txt --port 80")) == ""
    assert record.files["recorded_beside.py"] == beside and record.files["weights.txt"] == data
    assert any(Path(name).name.startswith("python3") for name in record.files)


def test_first_value_counts_and_other_value_is_refused(here):
    record = CodeRecord(here, "r")
    assert record.refusal({"rewards.py": "1"}, "") == ""
    line = CodeRecord(here, "r").refusal({"rewards.py": "2"}, "")
    assert line.startswith("rewards.py was 1 and is 2; put it back") and "resume r --changed-code" in line
    assert record.refusal({"rewards.py": "1", "levels.txt": "3"}, "") == ""


def test_files_written_by_run_processes_are_not_compared(here):
    record, value = CodeRecord(here, "r"), write("best.json", "1")
    assert record.refusal({"best.json": value}, "") == ""
    assert record.refusal({"best.json": WRITTEN, "episode.txt": WRITTEN}, "") == ""
    assert record.refusal({"best.json": "2", "episode.txt": "3", f"{KEPT}best.json": "4"}, "") == ""
    write("best.json", "5")
    again = CodeRecord(here, "r")
    assert again.changes() == [] and again.refusal({"best.json": "6"}, "far") == ""
    assert again.files == {"best.json": WRITTEN}


def test_module_loaded_before_edit_is_refused(here):
    record = CodeRecord(here, "r")
    assert record.refusal({"env.py": "2"}, "") == ""
    assert record.refusal({f"{LOADED}env.py": "2", f"{LOADED}of_another_run.py": "1"}, "") == ""
    line = record.refusal({f"{LOADED}env.py": "1"}, "")
    assert line.startswith("env.py was edited after this process loaded it: it was 1 and is 2; start Python again")
    assert record.files == {"env.py": "2"}


def test_other_machine_must_have_same_files(here):
    value = write("env_of_this_machine.py", "")
    record = CodeRecord(here, "r")
    line = record.refusal({"env_of_this_machine.py": "1"}, "far")
    assert line == f"far has another env_of_this_machine.py: 1, the run's is {value}; copy that file there"
    assert record.refusal({"env_of_this_machine.py": value, "only_there.py": "2"}, "far") == ""
    assert CodeRecord(here, "r").changes() == []


def test_changes_since_are_named_and_can_be_accepted(here):
    before = write("rewards_accepted.py", "1")
    record = CodeRecord(here, "r")
    assert record.refusal({"rewards_accepted.py": before}, "") == ""
    after = write("rewards_accepted.py", "2")
    assert [str(change) for change in record.changes()] == [f"rewards_accepted.py was {before} and is {after}"]
    record.accept()
    assert CodeRecord(here, "r").files == {"rewards_accepted.py": after} and record.changes() == []
    Path("rewards_accepted.py").unlink()
    assert [change.after for change in record.changes()] == [ABSENT]


def test_cached_answer_may_come_from_earlier_code(here):
    before = write("rubric_accepted.py", "1")
    record = CodeRecord(here, "r")
    assert record.refusal({"rubric_accepted.py": before}, "") == ""
    write("rubric_accepted.py", "2")
    record.accept()
    assert CodeRecord(here, "r").refusal({f"{KEPT}rubric_accepted.py": before}, "") == ""
    assert "in a kept answer" in record.refusal({f"{KEPT}rubric_accepted.py": "3"}, "")


def test_study_runs_have_same_code(here):
    write("rubric_of_a_study.py", "")
    write("judge_of_a_study.py", "import rubric_of_a_study\n")
    config = graded(serve="judge_of_a_study:grade")
    (here / "one").mkdir()
    (here / "two").mkdir()
    assert CodeRecord(here / "one", "one", CodeRecord(here, "")).begin(config) == ""
    write("rubric_of_a_study.py", "edited = True\n")
    fault = CodeRecord(here / "two", "two", CodeRecord(here, "")).begin(config)
    assert fault.startswith("rubric_of_a_study.py was ") and "all runs of a study have the same code" in fault
    assert not (here / "two" / "code.json").exists()


def test_study_run_is_refused_for_changed_data(here):
    (here / "one").mkdir()
    value = write("levels_of_a_study.txt", "1")
    config = graded(serve="json:loads")
    one = CodeRecord(here / "one", "one", CodeRecord(here, ""))
    assert one.begin(config) == "" and one.refusal({"levels_of_a_study.txt": value}, "") == ""
    write("levels_of_a_study.txt", "2")
    assert "levels_of_a_study.txt was" in CodeRecord(here / "two", "two", CodeRecord(here, "")).begin(config)


def test_file_edited_during_task_is_refused(tmp_path):
    record = CodeRecord(tmp_path, "r")
    assert record.refusal({"mine.py": "0a, 1b"}, "").startswith("mine.py was 0a and is 1b; put it back")
    assert record.files == {}
