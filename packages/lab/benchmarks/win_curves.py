"""Prints how fast training wins battles: JaxMARL's own recurrent IPPO, and a run of MARLess.

    PYTHON packages/lab/benchmarks/win_curves.py jaxmarl baselines/IPPO/ippo_rnn_smax.py 3m 1
    python packages/lab/benchmarks/win_curves.py marless runs/latest

`PYTHON` has jaxmarl 0.2.0 with its training packages, and the first path is in a checkout of JaxMARL. It trains with
the settings of `ippo_rnn_smax.yaml`, until 80 % of the battles of ten updates (163,840 steps) are won. A line has the
steps, the seconds since the command began, and the share of the last 160,000 steps' battles that training won.
"""

import argparse
import importlib
import json
import os
import sys
import time
import types
from pathlib import Path
from statistics import fmean
from typing import Any

PUBLISHED = """
    LR=0.004 NUM_ENVS=128 NUM_STEPS=128 TOTAL_TIMESTEPS=10000000 UPDATE_EPOCHS=4 NUM_MINIBATCHES=4 GAMMA=0.99
    GAE_LAMBDA=0.95 CLIP_EPS=0.05 SCALE_CLIP_EPS=false ENT_COEF=0.01 VF_COEF=0.5 MAX_GRAD_NORM=0.25 ANNEAL_LR=true
    GRU_HIDDEN_DIM=128 FC_DIM_SIZE=128 ACTIVATION="relu" ENV_NAME="HeuristicEnemySMAX" NUM_SEEDS=1
    ENV_KWARGS={"see_enemy_actions":true,"walls_cause_death":true,"attack_mode":"closest"}
"""
ENOUGH, STEPS = 0.8, 160_000


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    programs = parser.add_subparsers(required=True)
    jaxmarl = programs.add_parser("jaxmarl")
    for name, kind in (("file", Path), ("map", str), ("seed", int)):
        jaxmarl.add_argument(name, type=kind)
    jaxmarl.set_defaults(curve=train_jaxmarl)
    marless = programs.add_parser("marless")
    marless.add_argument("run", type=Path)
    marless.set_defaults(curve=read_marless)
    options = parser.parse_args()
    print("env_steps,seconds,win")
    options.curve(options)


def train_jaxmarl(options: argparse.Namespace) -> None:
    """Print a line for each update, in place of JaxMARL's log to Weights & Biases."""
    began, wins = time.time(), list[float]()

    def _log(values: dict[str, Any]) -> None:
        wins.append(float(values["win_rate"]))
        win = fmean(wins[-10:])
        print(f"{int(values['env_step'])},{time.time() - began:.1f},{win:.3f}", flush=True)
        if len(wins) >= 10 and win >= ENOUGH:
            os._exit(0)  # the only way out of a callback of XLA

    wandb = types.ModuleType("wandb")
    wandb.log = _log  # type: ignore[attr-defined]
    sys.modules["wandb"] = wandb
    jax = importlib.import_module("jax")
    sys.path.insert(0, str(options.file.parent))
    ippo = importlib.import_module(options.file.stem)
    config = {key: json.loads(value) for key, _, value in (word.partition("=") for word in PUBLISHED.split())}
    train = ippo.make_train(config | {"MAP_NAME": options.map, "SEED": options.seed})
    jax.jit(train)(jax.random.PRNGKey(options.seed))


def read_marless(options: argparse.Namespace) -> None:
    """Print a line for each round of a run of `marless train`, until training wins enough. Its start is not counted."""
    rounds = [json.loads(line) for line in (options.run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    for end, last in enumerate(rounds, 1):
        recent = [one["env_metrics"]["win"] for one in rounds[:end] if one["env_steps"] > last["env_steps"] - STEPS]
        win = fmean(recent)
        print(f"{last['env_steps']},{last['seconds']:.1f},{win:.3f}")
        if last["env_steps"] >= STEPS and win >= ENOUGH:
            return


if __name__ == "__main__":
    main()
