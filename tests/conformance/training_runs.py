"""Whole training runs for the slow suites: seeds side by side, one process each, through the command line."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MARLESS = Path(sys.executable).parent / "marless"


def train(folder: Path, *settings: str, workers: int = 1) -> dict:
    """The summary of a run in `folder`; raises with its output when it does not finish."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [str(MARLESS), "train", *settings, "--run", "run", "--workers", str(workers), "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return json.loads((folder / "runs" / "run" / "summary.json").read_text())


def train_seeds(folder: Path, seeds: range, *settings: str, at_once: int) -> list[dict]:
    """One summary per seed."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda seed: train(folder / f"seed_{seed}", f"seed={seed}", *settings), seeds))
