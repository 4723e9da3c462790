"""What the benchmark of agents that speak is measured with: the plain loop, and the judge that is far away."""

import msgspec
import pytest

pytest.importorskip("torch")

from language_runs import RELAY, relay_base, speak

from benchmarks.comparisons.measurement_record import Record
from benchmarks.language import adding_task, plain_loop, waiting_judge
from benchmarks.table import Row
from coordinator.config.loading import load
from functions import codec
from functions.encoding import to_json
from functions.resources.code_judge import Assignment
from infra.local.file_storage import FileStorage
from marless.language import check
from marless.reports.weights import gather


def test_the_plain_loop_ends_with_the_adapters_of_a_run(tmp_path):
    base = tmp_path / "base.safetensors"
    base.write_bytes(relay_base())
    small = load(None, RELAY).algorithm  # a base that is named has other defaults
    same = (f"algorithm.lr={small.lr}", f"algorithm.ent_coef={small.ent_coef}")
    settings = (*RELAY, *same, f"base.model={base}", "base.rank=2", "base.layers=1")
    looped = plain_loop.looped(load(None, settings), threads=1)
    state = speak(tmp_path / "run").state
    tensors = gather(state, FileStorage(tmp_path / "run" / "objects"))
    adapters = {name: array for name, array in tensors.items() if name.startswith("policy/")}
    assert looped["adapters"] == codec.tensors_sha256(adapters)
    # Of 16 episodes: three symbols and a reply; two examples of six symbols, a message, three symbols and a reply.
    assert looped["tokens"] == [16 * (4 + 17)] * 3 and len(looped["ends_s"]) == 3


@pytest.mark.parametrize(
    ("program", "output", "grade"),
    [
        ("print(2*3)", "6", b"1.0"),
        ("print(2+3)", "6", b"0.0"),
        ("print(1-3)", "-2", b"1.0"),
        ("print(+++)", "6", b"0.0"),
    ],
)
def test_the_judge_far_away_grades_programs_of_one_operator(program, output, grade, shell):
    shell.export(**{waiting_judge.MEDIAN_S: "0"})
    assert waiting_judge.grade(to_json(Assignment(program=program, output=output))) == grade


def test_a_record_of_rows_is_read_as_it_was_written():
    rows = [Row("tokens/s", [2.0, 4.0], ratios=[0.5, 1.0], against="loop", least=0.8)]
    record = Record(commit=None, date="", cores=2, kernel="", load=(0.0, 0.0), seconds=1.0, comparisons=rows)
    assert msgspec.json.decode(msgspec.json.encode(record), type=Record[Row]) == record


def test_the_task_that_trl_learns_too_keeps_what_tasks_promise():
    check(lambda: adding_task.make(None))
