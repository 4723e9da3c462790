"""One role that learns sums, by SmolLM2, with TRL's GRPO and here: equal prompts, tokens, rates and adapters.

    BENCH_MODEL=SmolLM2-135M-Instruct.Q4_1.gguf python -m benchmarks.language.against_trl [--python PYTHON] [--rounds N]

writes docs/results/language/trl.json. PYTHON is an interpreter of an environment that has trl, transformers, peft and
torch; without it one is made. TRL has both cores, and so has a run by its two workers.
"""

import json
import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from benchmarks import peers
from benchmarks.comparisons.conditions import Measuring
from benchmarks.language.adding_task import DIGITS, PAIRS, prompt_of
from benchmarks.language.launch import MODEL, Task, Trained, smollm2, trained
from benchmarks.launch import ROOT
from coordinator.config.loading import load
from functions.language.model.base_model import open_base
from functions.language.model.peft_format import write_base
from marless.runs.inputs.language_models import model_file

PACKAGES = ("torch==2.13.0", "transformers==5.24.*", "peft==0.21.2", "trl==1.16.*")
RECORD = ROOT / "docs" / "results" / "language" / "trl.json"
_SCRIPT = Path(__file__).with_name("trl_loop.py")
_WORKERS, _SEED, _LAST = 2, 1, 5
# What both train with; TRL has no entropy bonus.
_EPISODES, _COPIES, _RANK, _LAYERS, _LR = 64, 8, 8, 4, 1e-3


def ours(model: str, rounds: int) -> Task:
    """The same by a run."""
    settings = (
        "task.name=text:benchmarks.language.adding_task:make",
        "algorithm.name=grpo",
        f"algorithm.group_size={_COPIES}",
        f"algorithm.lr={_LR}",
        "algorithm.ent_coef=0",
        f"actors.num_envs={_EPISODES}",
        f"base.rank={_RANK}",
        f"base.layers={_LAYERS}",
        model,
    )
    return Task("adding by SmolLM2", settings, rounds)


def theirs(python: Path, model: str, rounds: int, folder: Path) -> dict[str, Any]:
    """What TRL's loop prints; the model is written as Hugging Face's packages read it."""
    base = open_base(model_file(load(None, ["task.name=text/relay", "algorithm.name=grpo", model])))
    write_base(base, folder)
    settings = {
        "folder": str(folder),
        "answers": {prompt_of(x, y): str(x + y) for x, y in PAIRS},
        "allowed": DIGITS,
        "layers": [*range(base.shape.layers - _LAYERS, base.shape.layers)],
        "rounds": rounds,
        "episodes": _EPISODES,
        "copies": _COPIES,
        "rank": _RANK,
        "lr": _LR,
        "seed": _SEED,
        "threads": len(os.sched_getaffinity(0)),
    }
    command = [str(python), str(_SCRIPT), json.dumps(settings)]
    done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    printed: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return printed


def record(python: Path, task: Task, rounds: int) -> dict[str, Any]:
    """Both trainings in turn, and their ratio."""
    measuring, model = Measuring(), task.settings[-1]
    with tempfile.TemporaryDirectory() as folder:
        trl = theirs(python, model, rounds, Path(folder))
    run = trained(ours(model, rounds), _SEED, _WORKERS)
    by = {"marless": _of_run(run, trl["tokens"]), "trl": _of_trl(trl)}
    rates = [by[name]["tokens_per_processor_second"] for name in ("marless", "trl")]
    return {**msgspec.structs.asdict(measuring.conditions()), "rounds": rounds, **by, "ratio": rates[0] / rates[1]}


def _of_run(run: Trained, tokens: int) -> dict[str, Any]:
    """Of the whole command, its start included."""
    return _measured(tokens, run.whole_s, run.processor_s, run.success)


def _of_trl(trl: dict[str, Any]) -> dict[str, Any]:
    """Of its steps alone."""
    return _measured(trl["tokens"], trl["seconds"][-1], trl["processor_s"][-1], trl["success"])


def _measured(tokens: int, seconds: float, processor_s: float, success: list[float]) -> dict[str, Any]:
    """`success` are the shares of right sums among a round's episodes."""
    return {
        "tokens": tokens,
        "seconds": seconds,
        "processor_s": processor_s,
        "tokens_per_second": tokens / seconds,
        "tokens_per_processor_second": tokens / processor_s,
        "success": [round(share, 4) for share in success],
        "last_success": fmean(success[-_LAST:]),
    }


def main() -> None:
    """Writes the record; without SmolLM2 it says what is missing, and ends with 2."""
    parser = ArgumentParser(prog="python -m benchmarks.language.against_trl")
    parser.add_argument("--python", type=Path, help="an interpreter that has trl, transformers, peft and torch")
    parser.add_argument("--rounds", type=int, default=30)
    options, task = parser.parse_args(), smollm2()
    if task is None:
        print(f"SmolLM2 is not at hand: say by {MODEL} where its .gguf file is", file=sys.stderr)
        sys.exit(2)
    with tempfile.TemporaryDirectory() as folder:
        python = options.python or peers.installed(Path(folder), PACKAGES)
        measured = record(python, task, options.rounds)
    RECORD.write_bytes(msgspec.json.format(msgspec.json.encode(measured), indent=1) + b"\n")
    print({name: measured[name] for name in ("ratio", "seconds")})


if __name__ == "__main__":
    main()
