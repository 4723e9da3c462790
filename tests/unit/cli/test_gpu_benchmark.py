"""The findings of the benchmark of learners on a GPU, worked out by hand."""

import msgspec
import pytest
from msgspec.structs import replace

from benchmarks.gpu import measure, record
from benchmarks.gpu.record import CORES, GPU, NUMPY, TORCH, Cell, Record
from marless.functions.errors import BadRequest


def cell(rows, width, numpy, gpu):
    """Two repetitions: in the second all take twice as long, and the GPU three times."""
    seconds = {NUMPY: [numpy, 2 * numpy], TORCH: [2.0, 4.0], CORES: [0.5, 1.0], GPU: [gpu, 3 * gpu]}
    return Cell(rows=rows, width=width, seconds=seconds, apart=1.5e-6)


def test_row_tells_speed_up_of_each_way():
    assert cell(64_000, 1024, 1.0, 0.1).cells() == (
        "64,000", "1024", "1,500.0", "200.0", "0.50", "2.00", "8.33 (6.67 to 10.00)", "2e-06",
    )  # fmt: skip


def test_gpu_wins_from_last_crossing_size():
    cells = [
        cell(200, 64, 0.001, 0.01), cell(1600, 64, 0.1, 0.01), cell(12_800, 64, 0.05, 0.1), cell(64_000, 64, 2.0, 0.1),
    ]  # fmt: skip
    assert record.findings(cells) == [
        "64 wide: the GPU beats numpy on one core from 64,000 rows on, torch on all cores from the fewest rows on."
    ]
    assert record.findings(cells[:1]) == [
        "64 wide: the GPU beats numpy on one core nowhere (0.08 times as fast at 200 rows), torch on all cores from the"
        " fewest rows on."
    ]


@pytest.mark.parametrize(
    ("gpu", "verdict"),
    [
        (0.1, "8.3 times, kept in 2 of 2, 5 are needed. This is 4.2"),
        (0.19, "4.4 times, MISSED: kept in 1 of 2. This is 2.2"),
        (0.3, "2.8 times, MISSED: kept in 0 of 2. This is 1.4"),
    ],
)
def test_request_is_compared_with_largest_cell(gpu, verdict):
    assert record.findings([cell(64_000, 1024, 1.0, gpu)])[0].endswith(f"{verdict} times torch on all cores.")


def test_a_record_is_read_as_it_was_written():
    written = Record(
        commit="0123456789", date="2026-11-26", gpu="A GPU", torch="2.11", numpy="2.5", cores=16, processor="A CPU",
        kernel="Zen", seconds=200.4, cells=[cell(200, 64, 1.0, 0.1)],
    )  # fmt: skip
    assert msgspec.json.decode(msgspec.json.encode(written), type=Record) == written
    assert "torch, 16 cores" in record.table(written) and written.conditions().endswith("in 200 s, commit 01234567.")
    assert replace(written, commit=None).conditions().endswith("commit unknown.")


def test_local_measurement_can_be_stored():
    measured = measure.record_of([cell(200, 64, 1.0, 0.1)], "A GPU", 12.34)
    assert msgspec.json.decode(msgspec.json.encode(measured), type=Record) == measured
    assert (measured.gpu, measured.seconds) == ("A GPU", 12.3)


def test_without_a_gpu_one_line_says_so():
    if measure.torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(BadRequest, match=r"^gpu: torch .* finds no GPU here, so nothing is measured$"):
        measure.table(1, is_record=True)
