"""``python -m benchmarks neighbours``: the effect of each kind of bad neighbour on two good runs of the same pool.

A study has two slots and three runs: a run of our task, a run of the bad run's game without the harm, and the bad run.
Required: both good runs have the same weights as without the third, and they leave no files or processes.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from benchmarks.launch import ROOT
from benchmarks.pool.bad_neighbour import HARMS
from benchmarks.pool.measurement import MARLESS

_GAME = "pettingzoo:benchmarks.pool.bad_neighbour:make"
_TIMEOUT_S = 400
_MARK = "MARLESS_NEIGHBOURS"


class Outcome(NamedTuple):
    """The end of a study: hashes or other endings by run, processes and files of mode 000 that it left, its size."""

    code: int
    runs: dict[str, str]
    processes: int
    unreadable: int
    megabytes: float
    seconds: float
    said: str


def table(*kinds: str) -> str:
    """The table in Markdown, of all kinds or these."""
    alone = run("")
    lines = [
        "| harm | good runs | the bad run | processes left | files of mode 000 | MB | s |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind in kinds or [kind for kind in HARMS if kind != "nothing"]:
        found = run(kind)
        equal = all(found.runs.get(name) == sha256 for name, sha256 in alone.runs.items())
        good = "unharmed" if equal and "Traceback" not in found.said else f"HARMED: {found.runs}"
        bad = found.runs.get("bad-s1", "none")
        bad = "trained as if it did none" if bad == alone.runs["own-s1"] else bad if len(bad) < 20 else "other weights"
        cells = (kind, good, bad, found.processes, found.unreadable, f"{found.megabytes:.1f}", f"{found.seconds:.0f}")
        lines.append(f"| {' | '.join(map(str, cells))} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


def run(how: str) -> Outcome:
    """Trains the study with a bad neighbour, or without one."""
    with tempfile.TemporaryDirectory(prefix="neighbours-") as name:
        folder, mark = Path(name), uuid.uuid4().hex
        (folder / "study.toml").write_text(_study(how))
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
            "VICTIM": str(folder / "studies/study/runs/bad-s1"),
            _MARK: mark,
        }
        began = time.monotonic()
        try:
            done = subprocess.run(
                [*MARLESS, "study", "study.toml"],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TIMEOUT_S,
            )
            code, said = done.returncode, done.stdout + done.stderr
        except subprocess.TimeoutExpired:
            code, said = -1, "no end"
        seconds = time.monotonic() - began
        files = [path for path in folder.rglob("*") if path.is_file()]
        return Outcome(
            code,
            {path.parent.name: _ending(path) for path in folder.glob("studies/study/runs/*/summary.json")},
            _left(mark),
            sum(path.stat().st_mode & 0o777 == 0 for path in folder.rglob("*")),
            sum(path.stat().st_size for path in files) / 1e6,
            seconds,
            said,
        )


def _study(how: str) -> str:
    lines = [
        "seeds = [1]",
        "pool.workers = 2",
        *(["pool.memory_mb = 3000"] if how == "memory" else []),
        "base.stop.rounds = 8",
        "base.actors.num_envs = 4",
        "base.evaluation.every = 5",
        "base.evaluation.final_episodes = 8",
        "base.evaluation.episodes = 4",
        "base.functions.actor.timeout_s = 12",
        "base.functions.evaluator.timeout_s = 12",
        *_setting("ours", "mpe/simple_spread"),
        *_setting("own", _GAME),
        *(_setting("bad", _GAME, how) if how else []),
    ]
    return "\n".join(lines) + "\n"


def _setting(name: str, task: str, how: str = "") -> list[str]:
    options = [f'values."task.options.how" = "{how}"'] if how else []
    return ["[[setting]]", f'name = "{name}"', f'values."task.name" = "{task}"', *options]


def _ending(path: Path) -> str:
    summary = json.loads(path.read_text())
    return str(summary["weights_sha256"] if summary["status"] == "finished" else summary["status"])


def _left(mark: str) -> int:
    """The processes that the study has left, which are ended."""
    time.sleep(0.5)
    count = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{_MARK}={mark}".encode() in (folder / "environ").read_bytes():
                count += 1
                os.kill(int(folder.name), 9)
    return count
