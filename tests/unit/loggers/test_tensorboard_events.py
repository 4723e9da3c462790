"""TensorBoard's event file, read back by TensorBoard's own reader."""

import struct

import pytest
from logged_lines import AGENTS, line, logged, played

from marless.loggers.registry import logger
from marless.loggers.scalars import points

pytest.importorskip("tensorboardX")
pytestmark = pytest.mark.packages

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 640, 480)


def write(folder, lines, artefacts=()):
    writer = logger("tensorboard").open(logged(folder, **{"algorithm.lr": 0.5, "algorithm.hidden": [64, 32]}))
    for one in lines:
        for point in points(one, AGENTS):
            writer.write(point)
    writer.finish(artefacts, "finished")
    writer.close()


@pytest.fixture
def read(tmp_path):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

    def read():
        found = reader.EventAccumulator(str(tmp_path / "tensorboard"), {"scalars": 0, "tensors": 0, "images": 0})
        return found.Reload()

    return read


def test_scalars_are_at_steps_of_rounds_and_evaluations(tmp_path, read):
    write(tmp_path, [line(1), line(2, evaluation=played(1, -2.0, -1.0))])
    scalars = read().Scalars
    assert [(event.step, event.value, event.wall_time) for event in scalars("Return/train")] == [
        (100, -3.0, 1_700_000_002.0),
        (200, -6.0, 1_700_000_004.0),
    ]
    assert [(event.step, event.value) for event in scalars("Return/eval")] == [(100, -1.5)]
    assert [(event.step, event.value) for event in scalars("return/agent_1")] == [(100, -2.0), (200, -4.0)]
    assert [(event.step, event.value) for event in scalars("time/env_steps_per_second")] == [(100, 50.0), (200, 50.0)]


def test_the_team_s_returns_come_first(tmp_path, read):
    write(tmp_path, [line(1), line(2, evaluation=played(1, -2.0, -1.0))])
    tags = sorted(read().Tags()["scalars"])
    assert tags[:3] == ["Return/eval", "Return/train", "Return/train_sd"]
    assert {tag for tag in tags if tag.startswith("return/")} == {"return/agent_0", "return/agent_1"}


def test_continued_tensorboard_log_has_every_point_once(tmp_path, read):
    write(tmp_path, [line(1), line(2), line(3)])
    write(tmp_path, [line(1), line(2, return_mean=-8.0)])
    assert sum(path.stat().st_size > 0 for path in (tmp_path / "tensorboard").iterdir()) == 1
    assert [(event.step, event.value) for event in read().Scalars("Return/train")] == [(100, -3.0), (200, -8.0)]


def test_reader_opened_before_forgets_earlier_points(tmp_path, read):
    write(tmp_path, [line(1), line(2), line(3)])
    opened = read()
    write(tmp_path, [line(1), line(2)])
    assert [event.step for event in opened.Reload().Scalars("Return/train")] == [100, 200]


def test_settings_are_a_table_and_pictures_are_shown(tmp_path, read):
    (tmp_path / "curve.png").write_bytes(PNG)
    (tmp_path / "policies.safetensors").write_bytes(b"weights")
    write(tmp_path, [line(1)], [tmp_path / "curve.png", tmp_path / "policies.safetensors"])
    found = read()
    (table,) = found.Tensors("config/text_summary")
    assert b"|algorithm.lr|0.5|\n|algorithm.hidden|[64, 32]|" in table.tensor_proto.string_val[0]
    (image,) = found.Images("curve")
    assert (image.width, image.height, image.encoded_image_string) == (640, 480, PNG)
    assert found.Tags()["images"] == ["curve"]
