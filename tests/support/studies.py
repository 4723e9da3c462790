"""Files of tiny studies, studies as processes, and the weights of their runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

from commands import SMALL

from marless.cli.app import main

ROOT = Path(__file__).parents[2]
PATHS = [ROOT, *(ROOT / "tests/support" / name for name in ("", "environments"))]
# Four algorithms, on two tasks: on-policy, with a central critic, and from a replay buffer.
ALGORITHMS = {
    "ippo": ["algorithm.name=ippo"],
    "mappo": ["algorithm.name=mappo", "placement.rule=split"],
    "iql": ["algorithm.name=iql", "algorithm.batch_size=16", "algorithm.updates_per_round=2"],
    "vdn": ["algorithm.name=vdn", "algorithm.batch_size=16", "algorithm.updates_per_round=2"],
}
TASKS = ("toy/signal", "toy/corridor")
EVERYTHING = {
    f"{name}-{task.partition('/')[2]}": (f"task.name={task}", *settings)
    for name, settings in ALGORITHMS.items()
    for task in TASKS
}
EACH_ONCE = ("ippo-signal", "mappo-corridor", "iql-signal", "vdn-corridor")
"""Every algorithm on one of the tasks, and every task."""

HARM = {
    "crash": [],
    "sleep": ["functions.actor.timeout_s=0.5"],
    "leak": [],
    "hog": [],
    "flood": ["actors.rollouts=50", "placement.rule=split"],
}


def setting(name, settings, owner="me"):
    values = "\n".join(f"values.{key} = {_toml(value)}" for key, value in (text.split("=") for text in settings))
    return f'[[setting]]\nname = "{name}"\nowner = "{owner}"\n{values}\n'


def study(path, *settings, head='seeds = "1-2"\npool.workers = 2\n', base=SMALL):
    common = "\n".join(f"base.{key} = {_toml(value)}" for key, value in (text.split("=") for text in base))
    path.write_text(f"{head}\n{common}\n" + "\n".join(settings))


def _toml(value):
    return value if value[0] in "[0123456789-tf" and not value.startswith(("toy", "float", "fused")) else f'"{value}"'


def settings_of(names=EVERYTHING):
    return [setting(name, EVERYTHING[name]) for name in names]


def train_alone(seeds, base=SMALL, names=EVERYTHING):
    """Trains the runs of `settings_of` one by one in the current folder."""
    for name in names:
        for seed in seeds:
            settings = [*base, *EVERYTHING[name], f"seed={seed}", "--run", f"{name}-s{seed}", "--workers", "1"]
            assert main(["train", *settings]) == 0


def bad_neighbour(harm):
    task = "toy/signal" if harm == "flood" else f"pettingzoo:bad_neighbours:{harm}"
    return setting(f"bad-{harm}", [f"task.name={task}", "actors.num_envs=2", *HARM[harm]], "eve")


def hashes(folder):
    summaries = (json.loads(path.read_text()) for path in folder.glob("runs/*/summary.json"))
    return {found["run"]: found["weights_sha256"] for found in summaries if found["status"] == "finished"}


def begin(folder, *argv):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, PATHS))}
    command = [sys.executable, "-m", "marless.cli.app", "study", *argv]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def workers_of(process, known=()):
    """The worker processes of a study, and their parent. If it is dead, `known` workers are found as orphans."""
    children = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] not in "ZX":
            children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found = [process.pid]
    for parent in found:
        found.extend(children.get(parent, ()))
    living = {child for family in children.values() for child in family}
    return sorted({*found[1:], *living.intersection(known)})
