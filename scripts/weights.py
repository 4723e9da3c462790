"""Prints hashes of the final weights of short runs, which a refactoring must not alter.

    python -m scripts.weights [PATTERN ...] > after.json

One JSON object: the run's name and its `weights_sha256`. Bytes are equal only on one machine, so run this command there
for the commits before and after. A PATTERN selects runs by name.
"""

import fnmatch
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[1]
MARLESS = (sys.executable, "-c", "import sys; from marless.cli.app import main; sys.exit(main())")

SMALL = (
    "seed=7",
    "stop.rounds=6",
    "actors.num_envs=8",
    "evaluation.every=3",
    "evaluation.episodes=16",
    "evaluation.final_episodes=16",
    "algorithm.hidden=[16,16]",
)
PPO = ("algorithm.epochs=2", "algorithm.num_minibatches=2")
REPLAY = ("algorithm.updates_per_round=3", "algorithm.batch_size=64")
# Sharing switches at every full window, for every team, and every trial passes: a merge and a split in six rounds.
SWITCHING = (
    "algorithm.name=ippo",
    "trend.rule=paper",
    "trend.gamma=100.0",
    "trend.window=3",
    "sharing.rule=dynamic",
    "sharing.start=apart",
    "sharing.epsilon=1.0",
    "sharing.margin=10.0",
    "sharing.trial_episodes=16",
    "sharing.distil_steps=5",
    "scaling.rule=gns",
    "actors.rollouts=6",
    "scaling.min_rollouts=2",
    "stop.rounds=8",
)
PAPER = (
    "algorithm.name=mappo",
    "trend.rule=paper",
    "trend.gamma=100.0",
    "trend.window=3",
    "sharing.rule=dynamic",
    "sharing.start=apart",
    "sharing.distance=kde-kl",
    "sharing.grouping=kmeans",
    "sharing.base=convexity",
    "sharing.trial=false",
    "scaling.rule=paper",
    "actors.rollouts=5",
    "scaling.min_rollouts=2",
    "stop.rounds=7",
)
RUNS = {
    "mappo": ("algorithm.name=mappo", *PPO),
    "ippo": ("algorithm.name=ippo", *PPO),
    "happo": ("algorithm.name=happo", *PPO),
    "iql": ("algorithm.name=iql", *REPLAY),
    "vdn": ("algorithm.name=vdn", *REPLAY),
    "qmix": ("algorithm.name=qmix", *REPLAY),
    "qplex": ("algorithm.name=qplex", *REPLAY),
    "iddpg": ("algorithm.name=iddpg", *REPLAY),
    "maddpg": ("algorithm.name=maddpg", *REPLAY),
    "isac": ("algorithm.name=isac", *REPLAY),
    "masac": ("algorithm.name=masac", *REPLAY),
    "recurrent-mappo": ("algorithm.name=mappo", "algorithm.recurrent=true", *PPO),
    "recurrent-qmix": ("algorithm.name=qmix", "algorithm.recurrent=true", *REPLAY),
    "qmix-prioritised": ("algorithm.name=qmix", "algorithm.priority=0.6", "algorithm.n_step=3", *REPLAY),
    "shared": ("algorithm.name=mappo", "sharing.rule=all", *PPO),
    "dynamic": SWITCHING,
    "dynamic-paper": PAPER,
    "split": ("placement.rule=split", "placement.pack=2", "actors.rollouts=4", *PPO),
    "packed": ("placement.rule=packed", "algorithm.name=maddpg", "actors.rollouts=2", *REPLAY),
    "whole": ("placement.rule=whole", "placement.inline_objects=true", "algorithm.name=ippo", *PPO),
    "whole-replay": ("placement.rule=whole", "algorithm.name=vdn", *REPLAY),
    "auto": ("placement.rule=auto", "actors.rollouts=2", *PPO),
    "micro-batches": (
        "placement.rule=split",
        "actors.rollouts=5",
        "pipeline.micro_batch=2",
        "algorithm.epochs=1",
        "algorithm.num_minibatches=1",
    ),
    "pettingzoo": ("task.name=pettingzoo:mpe2.simple_spread_v3:parallel_env", "task.options.N=2", *PPO),
    "adversarial": ("task.name=mpe/simple_tag", "algorithm.name=maddpg", *REPLAY),
    "fixed-side": ("task.name=mpe/simple_adversary", "opponents.side=0", *PPO),
    "foraging": ("task.name=lbf/8x8-2p-2f-coop", "algorithm.name=iql", *REPLAY),
    "league": ("task.name=mpe/simple_tag", "league.rule=prioritised", "league.every=2", "actors.rollouts=4", *PPO),
    "scripted-opponent": ("task.name=mpe/simple_tag", "opponents.side=0", "opponents.policies=players:first", *PPO),
    "fragments": ("actors.rollout_length=10", "actors.rollouts=2", *PPO),
    "roles": (
        "task.name=roles/blind_spread",
        "task.agents=4",
        "task.options.roles=2",
        "algorithm.name=ippo",
        "sharing.rule=roles",
        "actors.rollouts=10",
        "stop.rounds=4",
        *PPO,
    ),
    "torch": ("algorithm.engine=torch", *PPO),
    "offline": ("algorithm.name=bc", "algorithm.num_minibatches=2", "offline.dataset=data"),
    "study": PPO,
    "lag-1": ("pipeline.lag=1", "placement.rule=split", "actors.rollouts=2", *PPO),
    "lag-2": ("pipeline.lag=2", "algorithm.name=qmix", *REPLAY),
    "emulated": ("algorithm.name=mappo", *PPO),
    "emulated-detached": ("algorithm.name=ippo", *PPO),
}


def main(patterns: list[str]) -> None:
    """Print the hashes of all runs, or of runs that match a pattern."""
    with tempfile.TemporaryDirectory() as scratch:
        chosen = [name for name in RUNS if not patterns or any(fnmatch.fnmatch(name, one) for one in patterns)]
        hashes = {name: weights_sha256(name, Path(scratch)) for name in chosen}
    print(json.dumps(hashes, indent=2))


def weights_sha256(name: str, scratch: Path) -> str:
    """Train the run in `scratch`. Raises `CalledProcessError` if a command fails."""
    hashed = WAYS.get(name, _local)(scratch, name, (*SMALL, *RUNS[name]))
    print(f"{name:18} {hashed}", file=sys.stderr, flush=True)
    return hashed


def _local(scratch: Path, name: str, settings: Sequence[str]) -> str:
    _marless(scratch, "train", *settings, "--run", name, "--workers", "2")
    return _hash_of(scratch / "runs" / name)


def _from_a_dataset(scratch: Path, name: str, settings: Sequence[str]) -> str:
    _local(scratch, "recorded", (*SMALL, *PPO))
    _marless(scratch, "export", "recorded", "--to", "npz", "--episodes", "32", "--out", "data")
    return _local(scratch, name, settings)


def _against_a_script(scratch: Path, name: str, settings: Sequence[str]) -> str:
    (scratch / "players.py").write_text(
        "def first(seen, legal):\n    return legal & (legal.cumsum(-1) == 1)\n", encoding="utf-8"
    )
    return _local(scratch, name, settings)


def _study(scratch: Path, name: str, settings: Sequence[str]) -> str:
    """Of four runs, two at a time: the hash of their hashes."""
    base = [f"base.{setting.replace('=', ' = ', 1)}" for setting in settings if not setting.startswith("seed=")]
    lines = ['seeds = "1-2"', "pool.workers = 2", *base, "[vary]", "algorithm.lr = [1e-3, 2e-3]"]
    (scratch / "net.toml").write_text("\n".join(lines), encoding="utf-8")
    _marless(scratch, "study", "net.toml")
    hashes = [_hash_of(path.parent) for path in sorted((scratch / "studies" / "net").rglob("summary.json"))]
    return sha256("".join(hashes).encode()).hexdigest()


def _emulated(scratch: Path, name: str, settings: Sequence[str]) -> str:
    _marless(scratch, "train", *settings, "--run", name, "--backend", "emulated")
    return _hash_of(scratch / "runs" / name)


def _detached(scratch: Path, name: str, settings: Sequence[str]) -> str:
    _marless(scratch, "cloud", "deploy", "--backend", "emulated")
    _marless(scratch, "train", *settings, "--run", name, "--backend", "emulated", "--detach")
    _marless(scratch, "status", "--follow", name)
    _marless(scratch, "cloud", "teardown", "--backend", "emulated", "--yes")
    return _hash_of(scratch / "runs" / name)


WAYS: dict[str, Callable[[Path, str, Sequence[str]], str]] = {
    "offline": _from_a_dataset,
    "scripted-opponent": _against_a_script,
    "study": _study,
    "emulated": _emulated,
    "emulated-detached": _detached,
}
"""How runs are trained that are no single run on this machine."""


def _hash_of(run: Path) -> str:
    return str(json.loads((run / "summary.json").read_text(encoding="utf-8"))["weights_sha256"])


def _marless(scratch: Path, *arguments: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*MARLESS, *arguments], cwd=scratch, env=environment, capture_output=True, encoding="utf-8", errors="replace"
    )
    if done.returncode:
        print(done.stdout, done.stderr, file=sys.stderr)
        done.check_returncode()


if __name__ == "__main__":
    main(sys.argv[1:])
