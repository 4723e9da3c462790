"""Configurations that are damaged, endless, or no files at all: each gives one line."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.damage.files import COMMON
from benchmarks.damage.forked import ask
from benchmarks.damage.table import Table

_MOST = 2**63 - 1
_SMALL = ("stop.rounds=1", *COMMON, "--backend", "inline", "--run", "r")
# Settings that are a number, and impossible values of them.
_COUNTS = (
    "actors.num_envs", "actors.rollout_length", "task.agents", "actors.rollouts", "scaling.min_rollouts",
    "sharing.cap", "evaluation.episodes", "evaluation.final_episodes", "evaluation.episodes_per_invocation",
    "evaluation.every", "evaluation.side", "algorithm.epochs", "algorithm.num_minibatches", "checkpoint_every",
    "placement.pack", "league.every", "stop.env_steps", "stop.rounds", "opponents.side", "seed",
    "algorithm.data_chunk_length",
)  # fmt: skip
_NUMBERS = (
    "algorithm.lr", "algorithm.ent_coef", "algorithm.max_grad_norm", "algorithm.clip_coef", "sharing.epsilon",
    "stop.seconds", "stop.dollars", "stop.return", "trend.gamma",
)  # fmt: skip
_TEXTS = ("pricing.region", "task.name", "algorithm.name", "sharing.rule", "opponents.policies", "offline.dataset")
_LISTS = ("algorithm.hidden=[1000000000]", "algorithm.hidden=[100000,100000]", f"algorithm.hidden={[8] * 1000}")


def check(table: Table) -> int:
    """Asks for all of them. Returns the number of inputs."""
    with tempfile.TemporaryDirectory(prefix="marless-damage-") as scratch:
        folder, asked = Path(scratch), 0
        for name, text in _documents():
            (folder / "hostile.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
            for command in ("config", "estimate", "train", "study"):
                table.add(name, command, ask(folder, [command, "hostile.toml"]))
            asked += 1
        for name, path in _no_files(folder):
            for command in ("config", "study"):
                table.add(name, command, ask(folder, [command, path]))
            asked += 1
        for setting in _settings():
            table.add(setting[:80], "train", ask(folder, ["train", *_SMALL, setting]))
            asked += 1
    return asked


def _settings() -> Iterator[str]:
    for key in _COUNTS:
        for value in (10**20, _MOST, -1, "9" * 5000):
            yield f"{key}={value}"
    for key in _NUMBERS:
        for number in ("1e300", "nan", "-inf", "9" * 5000):
            yield f"{key}={number}"
    for key in _TEXTS:
        for text in ("\udcff", "a\x1b[2J", "x" * 100_000):
            yield f"{key}={text}"
    yield from _LISTS
    yield "seed=" + "[" * 1000
    yield "task.options." + ".".join(["a"] * 3000) + "=1"
    yield f"task.options.x={2**70}"
    yield "task.options.x=1979-05-27"
    yield "task.options.x=\udcff"


def _documents() -> Iterator[tuple[str, str]]:
    yield "a million keys", "\n".join(f"k{index} = 1" for index in range(10**6))
    yield "a hundred thousand options", "[task.options]\n" + "\n".join(f"k{index} = 1" for index in range(60_000))
    yield "a deep array", "a = " + "[" * 100_000
    yield "a deep array that is closed", "a = " + "[" * 900 + "]" * 900
    yield "deep tables in a line", "a = " + "{b=" * 5000 + "1" + "}" * 5000
    yield "a key of many parts", ".".join(["a"] * 20_000) + " = 1"
    yield "a quoted key of many parts", ".".join(['"a b"'] * 20_000) + " = 1"
    yield "a table of many parts", "[" + " . ".join(["a"] * 3000) + "]\nx = 1"
    yield "many tables", "".join(f"[a{index}]\n" for index in range(60_000))
    yield "many keys of thirty parts", "\n".join(".".join([f"k{index}"] * 30) + " = 1" for index in range(8000))
    yield "a long name", 'task.name = "' + "x" * 900_000 + '"'
    yield "many dots in a text", "task.name = '" + "a." * 400_000 + "'"
    yield "an escape", 'task.name = "\\u001b[2J"'
    yield "an escape in a key", '"\\u001b[2J\\n" = 1'
    yield "a zero byte", "a = 1\x00"
    yield "another encoding", "\udcff\udcfes\x00e\x00e\x00d\x00"
    yield "not UTF-8", 'task.name = "\udcff"'
    yield "a long number", "seed = " + "9" * 5000
    yield "a number of four thousand digits", "seed = " + "9" * 4000
    yield "a long float", "algorithm.lr = " + "9" * 100_000 + ".0"
    yield "a date", "seed = 1979-05-27"
    yield "many groups", "sharing.groups = " + str([["a"]] * 100_000)
    yield "a file of its own", 'config = "hostile.toml"\n[base]\nstop.rounds = 0\n'


def _no_files(folder: Path) -> Iterator[tuple[str, str]]:
    os.mkfifo(folder / "pipe.toml")
    (folder / "folder.toml").mkdir()
    (folder / "loop.toml").symlink_to("loop.toml")
    with (folder / "hole.toml").open("wb") as file:
        file.truncate(1 << 40)
    for name in ("pipe.toml", "folder.toml", "loop.toml", "hole.toml", "/dev/zero", "/dev/stdin", "/proc/self/mem"):
        yield name, name
