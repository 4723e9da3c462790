"""Whole training runs for the slow suites: seeds side by side, one process each, through the command line."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MARLESS = Path(sys.executable).parent / "marless"


def train(folder: Path, *settings: str, workers: int | None = None) -> dict:
    folder.mkdir(parents=True, exist_ok=True)
    command = [str(MARLESS), "train", *settings, "--run", "run", "--json"]
    command += [] if workers is None else ["--workers", str(workers)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return json.loads((folder / "runs" / "run" / "summary.json").read_text())


def train_seeds(folder: Path, seeds: range, *settings: str, at_once: int) -> list[dict]:
    """One summary per seed. Runs side by side get one worker each."""
    workers = None if at_once == 1 else 1
    with ThreadPoolExecutor(at_once) as pool:
        runs = [
            pool.submit(train, folder / f"seed_{seed}", f"seed={seed}", *settings, workers=workers) for seed in seeds
        ]
        return [run.result() for run in runs]
