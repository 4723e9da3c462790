"""No stream ends a run. `python -m scripts.streams` prints the whole table."""

import pytest

from scripts import streams

_QUICK = {
    ("the reader of both left (`2>&1 \\| head`)", "study"),
    ("output on a full disk", "status --json"),
    ("output and error closed (`>&- 2>&-`)", "train"),
    ("the terminal went", "train"),
}
_CELLS = [
    pytest.param(way, name, marks=[] if (way, name) in _QUICK else [pytest.mark.conformance], id=f"{name}-{way}")
    for way in streams.BREAKS
    for name in streams.COMMANDS
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    streams.prepare(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("way", "name"), _CELLS)
def test_command_continues_without_stream_and_tells_loss(prepared, way, name):
    assert streams.broken(way, name, streams.outcome(way, name, prepared)) == ""


def test_the_quick_cells_are_cells_of_the_table():
    assert {(way, name) for way in streams.BREAKS for name in streams.COMMANDS} > _QUICK
