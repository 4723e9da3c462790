"""The instruments of the benchmark of agents that speak: the plain loop, and the judge that is far away."""

import msgspec
import numpy as np
import pytest

pytest.importorskip("torch")

from language_runs import RELAY, relay_base, speak

from benchmarks.comparisons.measurement_record import Record
from benchmarks.language import adding_task, against_trl, plain_loop, waiting_judge
from benchmarks.language.counting_speaker import CountingSpeaker
from benchmarks.language.launch import CACHE_BYTES
from benchmarks.table import Row
from marless.coordinator.config.loading import load
from marless.functions import codec
from marless.functions.encoding import to_json
from marless.functions.resources.code_judge import Assignment
from marless.infra.local.file_storage import FileStorage
from marless.language import check
from marless.reports.weights import gather
from marless_language.adapter_layout import AdapterLayout
from marless_language.model.base_model import open_base


def test_plain_loop_ends_with_adapters_of_run(tmp_path):
    base = tmp_path / "base.safetensors"
    base.write_bytes(relay_base())
    small = load(None, RELAY).algorithm  # a base that is named has other defaults
    same = (f"algorithm.lr={small.lr}", f"algorithm.ent_coef={small.ent_coef}")
    settings = (*RELAY, *same, f"base.model={base}", "base.rank=2", "base.layers=1")
    looped, uncached = (plain_loop.looped(load(None, settings), 1, cache_bytes) for cache_bytes in (CACHE_BYTES, 0))
    state = speak(tmp_path / "run").state
    tensors = gather(state, FileStorage(tmp_path / "run" / "objects"))
    adapters = {name: array for name, array in tensors.items() if name.startswith("policy/")}
    assert looped["adapters"] == uncached["adapters"] == codec.tensors_sha256(adapters)
    # Of 16 episodes: three symbols and a reply, and two examples of six symbols, a message, three symbols and a reply.
    assert looped["tokens"] == [16 * (4 + 17)] * 3 and len(looped["ends_s"]) == 3
    # Without a cache learning computes the frozen layers again, and so does each round.
    assert looped["computed"][-1] < uncached["computed"][-1]


def test_computed_tokens_are_counted_by_layer(tmp_path):
    """Three texts of five tokens fill a part of eight rows: 40 tokens in each layer that computes them."""
    (tmp_path / "base.safetensors").write_bytes(relay_base())
    base = open_base(tmp_path / "base.safetensors")
    layers = base.shape.layers
    texts = np.arange(15, dtype=np.int32).reshape(3, 5)
    for cache_bytes, again in ((CACHE_BYTES, 0), (0, 40 * (layers - 1))):
        speaker = CountingSpeaker(base, AdapterLayout(base.shape, 2, 1), cache_bytes)
        hidden = speaker.trunk(texts)
        assert speaker.computed_tokens == 40 * (layers - 1) / layers
        speaker.top(hidden.repeat(3, 1, 1)[:8], {}, 1)
        assert speaker.computed_tokens == 40
        speaker.trunk(texts)
        assert speaker.computed_tokens == 40 + again / layers


def test_target_is_reached_by_last_five_rounds():
    """The means of five rounds are 0.8, 0.9 and 0.95, so the sixth round reaches 0.9, and ends after 6 s."""
    success, ends_s = [0.6, 0.8, 0.8, 0.9, 0.9, 1.1, 1.05], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    trained = against_trl.measured(700.0, ends_s, 14.0, success)
    assert (trained["seconds_to_target"], trained["computed_tokens_per_processor_second"]) == (6.0, 50.0)
    never = against_trl.measured(700.0, ends_s[:5], 7.0, success[:5])
    assert never["seconds_to_target"] is None
    lines = against_trl.summary([{"marless": trained, "trl": never}] * 3)
    assert lines == [
        "marless: 0.9 reached in 3 of 3 seeds, in 6.0 s (6.0 … 6.0 (3)), 50 computed tokens per processor second",
        "trl: 0.9 reached in 0 of 3 seeds, in not reached (not reached … not reached (3)), 100 computed tokens per"
        " processor second",
    ]


@pytest.mark.parametrize(
    ("program", "output", "grade"),
    [
        ("print(2*3)", "6", b"1.0"),
        ("print(2+3)", "6", b"0.0"),
        ("print(1-3)", "-2", b"1.0"),
        ("print(+++)", "6", b"0.0"),
    ],
)
def test_remote_judge_grades_programs_of_one_operator(program, output, grade, shell):
    shell.export(**{waiting_judge.MEDIAN_S: "0"})
    assert waiting_judge.grade(to_json(Assignment(program=program, output=output))) == grade


def test_record_rows_are_read_as_written():
    rows = [Row("tokens/s", [2.0, 4.0], ratios=[0.5, 1.0], against="loop", least=0.8)]
    record = Record(commit=None, date="", cores=2, kernel="", load=(0.0, 0.0), seconds=1.0, comparisons=rows)
    assert msgspec.json.decode(msgspec.json.encode(record), type=Record[Row]) == record


def test_task_shared_with_trl_keeps_task_promises():
    check(lambda: adding_task.make(None))
