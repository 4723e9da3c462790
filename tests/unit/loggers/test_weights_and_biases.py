"""An offline run of Weights & Biases, read back from its file."""

import json
import struct

import logged_lines
import pytest
from logged_lines import AGENTS, line, played

from marless.loggers.scalars import evaluation_point, points

wandb = pytest.importorskip("wandb")
pytestmark = pytest.mark.packages
# A file of W&B is a log of LevelDB: 7 bytes, then blocks of 32 KiB with parts of records. Each part follows a checksum,
# its length and its place in the record (LevelDB, "Log format").
FILE_HEADER, BLOCK, PART = 7, 32 * 1024, struct.Struct("<IHB")
LAST = (1, 4)


@pytest.fixture(autouse=True)
def offline(shell, tmp_path):
    home = str(tmp_path / "home")
    shell.export(WANDB_MODE="offline", WANDB_DATA_DIR=home, WANDB_CACHE_DIR=home, WANDB_CONFIG_DIR=home)


def write(folder, new, artefacts=(), **settings):
    logged_lines.write("wandb", folder, new, artefacts, **settings)
    # As at the end of a process: the service of W&B writes the last records when it ends.
    wandb.teardown()


def records(folder):
    from wandb.proto.wandb_internal_pb2 import Record

    (path,) = folder.glob("wandb/offline-run-*-0123456789abcdef*/*.wandb")
    body, at, whole = path.read_bytes(), FILE_HEADER, b""
    while at + PART.size <= len(body):
        if BLOCK - at % BLOCK < PART.size:
            at += BLOCK - at % BLOCK
            continue
        _, length, place = PART.unpack_from(body, at)
        whole += body[at + PART.size : at + PART.size + length]
        at += PART.size + length
        if place in LAST:
            yield Record.FromString(whole)
            whole = b""


def history(folder, *names):
    """The rows of the history that have all of `names`, in order."""
    rows = [
        {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
        for record in records(folder)
        if record.HasField("history")
    ]
    return [tuple(row[name] for name in names) for row in rows if {*names} <= row.keys()]


def test_rounds_and_evaluations_are_at_their_environment_steps(tmp_path):
    final = evaluation_point(2, 200, 4.0, -0.5, {}, {})
    write(tmp_path, [*points(line(1), AGENTS), *points(line(2, evaluation=played(1, -2.0, -1.0)), AGENTS), final])
    assert history(tmp_path, "env_steps", "return/train", "return/agent_1") == [(100, -3.0, -2.0), (200, -6.0, -4.0)]
    assert history(tmp_path, "env_steps", "return/eval") == [(100, -1.5), (200, -0.5)]
    axes = [record.metric for record in records(tmp_path) if record.HasField("metric")]
    assert {(axis.glob_name, axis.step_metric) for axis in axes} >= {("*", "env_steps")}


def test_continued_wandb_log_has_every_point_once(tmp_path):
    write(tmp_path, [point for number in (1, 2) for point in points(line(number), AGENTS)])
    write(tmp_path, [point for number in (1, 2, 3) for point in points(line(number), AGENTS)])
    assert history(tmp_path, "env_steps", "return/train") == [(100, -3.0), (200, -6.0), (300, -9.0)]


def test_settings_and_policies_are_kept(tmp_path):
    (tmp_path / "policies.safetensors").write_bytes(b"weights")
    write(tmp_path, points(line(1), AGENTS), [tmp_path / "policies.safetensors"], **{"algorithm.lr": 0.5})
    found = list(records(tmp_path))
    updates = [item for record in found if record.HasField("config") for item in record.config.update]
    assert ("algorithm.lr", 0.5) in [(item.key or item.nested_key[0], json.loads(item.value_json)) for item in updates]
    artefacts = [record.request.log_artifact.artifact for record in found] + [record.artifact for record in found]
    assert "policies.safetensors" in [entry.path for found in artefacts for entry in found.manifest.contents]


def test_command_line_that_may_hold_key_is_unlogged(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["marless", "train", "task.options.key=correct-horse-battery"])
    write(tmp_path, points(line(1), AGENTS))
    assert history(tmp_path, "env_steps") == [(100,)]
    assert not any(b"correct-horse" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_server_is_not_sent_known_points(tmp_path, monkeypatch):
    begun = wandb.init

    class Continued:
        def __init__(self, run):
            self._run = run

        step = 3

        def __getattr__(self, name):
            return getattr(self._run, name)

    monkeypatch.setattr(wandb, "init", lambda **settings: Continued(begun(**settings)))
    write(tmp_path, [point for number in (1, 2) for point in points(line(number), AGENTS)])
    assert history(tmp_path, "env_steps", "return/train") == [(200, -6.0)]
