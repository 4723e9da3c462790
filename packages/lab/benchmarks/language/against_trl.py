"""One role that learns sums, by SmolLM2, with TRL's GRPO and here: seconds to a success, and the tokens computed.

    BENCH_MODEL=SmolLM2-135M-Instruct.Q4_1.gguf python -m benchmarks.language.against_trl [--python PYTHON] [--rounds N]

writes docs/results/language/trl.json. PYTHON is an interpreter of an environment that has trl, transformers, peft and
torch. Without it one is made. TRL has both cores, and so has a run by its two workers. Both programs train with their
own batches: TRL computes all 64 episodes at once, and a run computes 8 different texts at once. The rows "caches off"
are of one process that computes the frozen layers in every round again.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from benchmarks import peers
from benchmarks.comparisons.conditions import Measuring
from benchmarks.language.adding_task import DIGITS, PAIRS, prompt_of
from benchmarks.language.launch import CACHE_BYTES, MODEL, Task, looped, smollm2, trained
from benchmarks.launch import ROOT
from benchmarks.table import spread, typical
from marless.coordinator.config.loading import load
from marless_language.model.base_model import open_base
from marless_language.model.peft_format import write_base
from marless_language.runs.language_models import model_file

PACKAGES = ("torch==2.13.0", "transformers==5.24.*", "peft==0.21.2", "trl==1.16.*")
RECORD = ROOT / "docs" / "results" / "language" / "trl.json"
_SCRIPT = Path(__file__).with_name("trl_loop.py")
_WORKERS, _SEEDS, _LAST = 2, range(1, 6), 5
# The result that both have to reach: the mean success of the last rounds.
_TARGET = 0.9
# The settings of both programs. TRL has no entropy bonus.
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


def theirs(python: Path, model: str, rounds: int, seed: int, folder: Path) -> dict[str, Any]:
    """Return the output of TRL's loop. The model is written as Hugging Face's packages read it."""
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
        "seed": seed,
        "threads": len(os.sched_getaffinity(0)),
    }
    command = [str(python), str(_SCRIPT), json.dumps(settings)]
    done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    printed: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return printed


def record(python: Path, task: Task, rounds: int) -> dict[str, Any]:
    """Train with both programs in turn, seed by seed."""
    measuring, model = Measuring(), task.settings[-1]
    seeds = [_of_seed(python, model, rounds, seed) for seed in _SEEDS]
    return {**msgspec.structs.asdict(measuring.conditions()), "rounds": rounds, "target": _TARGET, "seeds": seeds}


def _of_seed(python: Path, model: str, rounds: int, seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        trl = theirs(python, model, rounds, seed, Path(folder))
    same = ours(model, rounds)
    run, in_loop = trained(same, seed, _WORKERS), replace(same, settings=("", *same.settings))
    # One thread computes the same bytes as the run, and so as many tokens.
    cached, uncached = (looped(in_loop, seed, 1, cache_bytes) for cache_bytes in (CACHE_BYTES, 0))
    if {cached.adapters, uncached.adapters} != {run.adapters}:
        raise RuntimeError(f"seed {seed}: the run and the loop end with different adapters")
    return {
        "marless": measured(cached.computed[-1], run.ends_s, run.processor_s, run.success),
        "marless, caches off": measured(uncached.computed[-1], uncached.ends_s, uncached.processor_s, run.success),
        "trl": measured(trl["computed"], trl["seconds"], trl["processor_s"][-1], trl["success"]),
    }


def measured(computed: float, ends_s: Sequence[float], processor_s: float, success: Sequence[float]) -> dict[str, Any]:
    """Return the numbers of a training. `success` are the shares of right sums among a round's episodes.

    `seconds_to_target` is the end of the first round with an average of the last rounds at the target, or None.
    """
    means = [fmean(success[end - _LAST : end]) for end in range(_LAST, len(success) + 1)]
    reached = next((end for end, value in enumerate(means, start=_LAST - 1) if value >= _TARGET), None)
    return {
        "computed_tokens": computed,
        "seconds": ends_s[-1],
        "processor_s": processor_s,
        "computed_tokens_per_processor_second": computed / processor_s,
        "success": [round(value, 4) for value in success],
        "seconds_to_target": None if reached is None else ends_s[reached],
    }


def summary(seeds: Sequence[Mapping[str, Mapping[str, Any]]]) -> list[str]:
    """Return a line for each program: its median seconds to the target, in how many seeds, and its computed tokens."""
    lines = []
    for program in seeds[0]:
        seconds = [seed[program]["seconds_to_target"] for seed in seeds]
        numbers = [math.inf if value is None else value for value in seconds]
        rates = [seed[program]["computed_tokens_per_processor_second"] for seed in seeds]
        reached = len(seconds) - seconds.count(None)
        lines.append(
            f"{program}: {_TARGET:g} reached in {reached} of {len(seeds)} seeds, in {typical(numbers, '.1f', ' s')}"
            f" ({spread(numbers, '.1f')}), {typical(rates, ',.0f')} computed tokens per processor second"
        )
    return lines


def main() -> None:
    """Write the record. Without SmolLM2 it names the missing file, and ends with 2."""
    parser = ArgumentParser(prog="python -m benchmarks.language.against_trl")
    parser.add_argument("--python", type=Path, help="an interpreter that has trl, transformers, peft and torch")
    parser.add_argument("--rounds", type=int, default=30)
    options, task = parser.parse_args(), smollm2()
    if task is None:
        print(f"SmolLM2 is not at hand: say by {MODEL} where its .gguf file is", file=sys.stderr)
        sys.exit(2)
    with tempfile.TemporaryDirectory() as folder:
        python = options.python or peers.installed(Path(folder), PACKAGES)
        found = record(python, task, options.rounds)
    RECORD.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    print(*summary(found["seeds"]), sep="\n")


if __name__ == "__main__":
    main()
