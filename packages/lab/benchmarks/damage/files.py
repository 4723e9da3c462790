"""Damaged files of a finished run and of a league run that was killed."""

import hashlib
import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.damage.damages import BYTES, ENTRIES, copy, damage, kinds_of_files
from benchmarks.damage.forked import Outcome, ask, command, start
from benchmarks.damage.table import Table

COMMON = (
    "actors.num_envs=4", "evaluation.every=2", "evaluation.episodes=4", "evaluation.final_episodes=4",
    "checkpoint_every=2", "--workers", "1",
)  # fmt: skip
_LEAGUE = ("task.name=mpe/simple_adversary", "actors.rollouts=4", "league.rule=prioritised", "league.every=1")
_RUN, _OTHER = "damaged", "other"
_ROUNDS, _MORE = 4, 2
_TRAIN_S = 600.0
COMMANDS = {
    "runs verify": ("runs", "verify", _RUN),
    "status": ("status", _RUN, "--json"),
    "runs list": ("runs", "--json"),
    "evaluate": ("evaluate", _RUN, "--episodes", "4", "--workers", "1", "--json"),
    "export": ("export", _RUN, "--to", "safetensors", "--out", "exported"),
    "report": ("report", _RUN, "--out", "page.html"),
    "log": ("log", _RUN, "--to", "csv"),
    "compare": ("compare", _RUN, _OTHER, "--json"),
    "report --timeline": ("report", "--timeline", _RUN),
}
# The files of a command's answer, in addition to its output.
_WRITES = {"export": "exported", "log": f"runs/{_RUN}/progress.csv"}
_VERIFIES = "runs verify"


def check(number: int, seed: int, table: Table) -> int:
    """Damages `number` files, half of each run. Returns the number of inputs."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="marless-damage-") as scratch:
        for name, make in (("finished", _finished), ("killed", _killed)):
            base, rounds = make(Path(scratch) / name)
            truth = _truth(base, rounds)
            for index, (kind, path, how) in enumerate(_drawn(rng, base, number // 2)):
                _damaged(rng, base, rounds, truth, (f"{name} #{index} {kind}: {how}", path, how), table)
    return number // 2 * 2


def _finished(base: Path) -> tuple[Path, int]:
    """Return a folder with two finished runs, and the rounds of a resume."""
    base.mkdir()
    for run, seed in ((_RUN, 1), (_OTHER, 2)):
        _train(base, run, f"seed={seed}", f"stop.rounds={_ROUNDS}")
    return base, _ROUNDS + _MORE


def _killed(base: Path) -> tuple[Path, int]:
    """Return a folder with a killed league run. Its ledger has a log next to it."""
    base.mkdir()
    _train(base, _OTHER, *_LEAGUE, f"stop.rounds={_ROUNDS}")
    pid = start(base, lambda: command(["train", *_LEAGUE, *COMMON, "stop.rounds=500", "--run", _RUN]))
    lines = base / "runs" / _RUN / "metrics.jsonl"
    while not lines.exists() or lines.read_bytes().count(b"\n") <= _ROUNDS:
        time.sleep(0.01)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return base, lines.read_bytes().count(b"\n") + _MORE


def _train(base: Path, run: str, *settings: str) -> None:
    outcome = ask(base, ["train", *COMMON, *settings, "--run", run], _TRAIN_S)
    assert outcome.code == 0, outcome.err


def _drawn(rng: random.Random, base: Path, number: int) -> list[tuple[str, Path, str]]:
    """Kinds of files and of damages in turn, so that a few draws have all."""
    files, ways = kinds_of_files(base / "runs" / _RUN), [*BYTES, *ENTRIES]
    drawn: list[tuple[str, Path, str]] = []
    while len(drawn) < number:
        kinds = list(files)
        rng.shuffle(kinds)
        drawn += [(kind, rng.choice(files[kind]), rng.choice(ways)) for kind in kinds]
    return drawn[:number]


def _battery(folder: Path, rounds: int) -> dict[str, Outcome]:
    resume = ("resume", _RUN, f"stop.rounds={rounds}", "--workers", "1")
    return {name: ask(folder, argv) for name, argv in {**COMMANDS, "resume": resume}.items()}


def _answers(folder: Path, said: Mapping[str, Outcome]) -> dict[str, str]:
    """Return the answers of the commands that ended well, as hashes."""
    answers = {name: _sha256(outcome.out.encode()) for name, outcome in said.items() if outcome.code == 0}
    for name, written in _WRITES.items():
        if name in answers:
            answers[name] = _hash_of(folder / written)
    if "resume" in answers:
        answers["resume"] = str(json.loads((folder / "runs" / _RUN / "summary.json").read_bytes())["weights_sha256"])
    return answers


def _truth(base: Path, rounds: int) -> dict[str, str]:
    """The answers that two undamaged copies agree on. The others tell times."""
    copies = (copy(base, base.with_name(f"{base.name}-{index}")) for index in range(2))
    one, other = (_answers(folder, _battery(folder, rounds)) for folder in copies)
    truth = {name: answer for name, answer in one.items() if other.get(name) == answer}
    print(f"{base.name}: answers compared: {', '.join(truth)}", flush=True)
    return truth


def _damaged(
    rng: random.Random, base: Path, rounds: int, truth: Mapping[str, str], case: tuple[str, Path, str], table: Table
) -> None:
    what, path, how = case
    folder = copy(base, base.with_name("case"))
    damage(rng, folder / "runs" / _RUN / path, how)
    said = _battery(folder, rounds)
    for name, outcome in said.items():
        table.add(what, name, outcome)
    answers = _answers(folder, said)
    if answers.get(_VERIFIES) == truth[_VERIFIES]:
        for name, answer in answers.items():
            if name in truth and answer != truth[name]:
                table.fault(f"{name}: silently another answer", what)
    shutil.rmtree(folder)


def _hash_of(path: Path) -> str:
    paths = sorted(path.rglob("*")) if path.is_dir() else [path]
    return _sha256(b"".join(each.read_bytes() for each in paths if each.is_file()))


def _sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
