"""``python -m scripts.bills > docs/results/bills.csv``: reads on the bill of equal runs on different platforms.

Each configuration is trained with one, two and three workers, in one process, in a pool with all others, and in an
emulated account, and estimated. The table also has the account's count of GETs, and the reads of the run without any
caches.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from aws_emulator import account
from aws_emulator.middleware.request_counter import PATH
from aws_emulator.settings import AccountSettings
from benchmarks.launch import environment
from marless.cloud.emulated_account import account_folder
from marless.functions import kernel_variables
from marless.reports.provenance import commit

COMMON = (
    "actors.num_envs=4", "algorithm.hidden=[16]", "stop.rounds=12", "evaluation.every=4", "evaluation.episodes=8",
    "evaluation.final_episodes=16", "checkpoint_every=5", "actors.rollouts=4",
)  # fmt: skip
REPLAY = ("sharing.rule=none", "algorithm.updates_per_round=2", "algorithm.batch_size=16")
LEAGUE = ("task.name=mpe/simple_tag", "league.rule=uniform", "league.every=3")
CONFIGURATIONS: dict[str, tuple[str, ...]] = {
    "mappo, fused": ("algorithm.name=mappo", "placement.rule=fused"),
    "ippo, split, six agents apart": (
        "algorithm.name=ippo", "task.name=mpe/simple_spread", "task.agents=6", "sharing.rule=none",
        "placement.rule=split",
    ),
    "ippo, split, one network": ("algorithm.name=ippo", "sharing.rule=all", "placement.rule=split"),
    "mappo, packed, two rollouts an actor": ("placement.rule=packed", "placement.pack=2"),
    "mappo, whole, three rounds a function": ("placement.rule=whole", "placement.chain=3"),
    "mappo, fused, objects in messages": ("placement.rule=fused", "placement.inline_objects=true"),
    "qmix, packed, replay": ("algorithm.name=qmix", *REPLAY, "placement.rule=packed"),
    "iql, fused, replay of three rounds": (
        "algorithm.name=iql", *REPLAY, "placement.rule=fused", "algorithm.buffer_size=1200",
    ),
    "iql, whole, replay": ("algorithm.name=iql", *REPLAY, "placement.rule=whole", "placement.chain=2"),
    "maddpg, split, replay": ("algorithm.name=maddpg", *REPLAY, "placement.rule=split"),
    "mappo, fused, league": (*LEAGUE, "algorithm.name=mappo", "placement.rule=fused"),
    "bc, fused, dataset": ("algorithm.name=bc", "offline.dataset=data", "placement.rule=fused"),
    "ippo, split, fragments of ten steps": ("algorithm.name=ippo", "actors.rollout_length=10", "placement.rule=split"),
}  # fmt: skip
WAYS = {
    "1 worker": ("--workers", "1"),
    "2 workers": ("--workers", "2"),
    "3 workers": ("--workers", "3"),
    "inline": ("--backend", "inline"),
    "emulated": ("--backend", "emulated"),
}
HEADER = ("configuration", *list(WAYS)[:4], "pool", "emulated", "estimate", "account", "nothing kept", "commit")


def main() -> None:
    """Print the table as CSV."""
    argparse.ArgumentParser(prog="python -m scripts.bills", description=__doc__).parse_args()
    made_by = (commit() or "")[:8]
    with tempfile.TemporaryDirectory() as folder:
        rows = [(*row, made_by) for row in _rows(Path(folder))]
    csv.writer(sys.stdout, lineterminator="\n").writerows([HEADER, *rows])


def _rows(home: Path) -> list[tuple[str | int, ...]]:
    _marless(home, "train", "algorithm.name=mappo", "stop.rounds=2", "--run", "recorded")
    _marless(home, "export", "recorded", "--to", "npz", "--episodes", "200", "--out", "data")
    # Only an account for tests counts requests. Functions inherit the variables that select processor instructions.
    settings = AccountSettings(processes=20, inherited_variables=kernel_variables.VARIABLES, faults=True, code=(home,))
    (home / account_folder()).parent.mkdir(exist_ok=True)
    running = account.start(home / account_folder(), settings)
    try:
        beside = _beside(home)
        return [_row(home, number, beside) for number in range(len(CONFIGURATIONS))]
    finally:
        running.stop()


def _row(home: Path, number: int, beside: list[dict[str, int]]) -> tuple[str | int, ...]:
    name = list(CONFIGURATIONS)[number]
    settings = (*COMMON, *CONFIGURATIONS[name])
    runs = {way: f"{number}-{position}" for position, way in enumerate(WAYS)}
    for way, where in WAYS.items():
        _marless(home, "train", *settings, *where, "--run", runs[way])
    bills = {way: _counts(home / "runs" / run) for way, run in runs.items()} | {"pool": beside[number]}
    said = _marless(home, "estimate", *settings, "--workers", "1", "--json")
    estimated = _quantities(json.loads(said.splitlines()[0])["bill"])
    counted, heads = _counted(home, runs["emulated"], "GET"), _counted(home, runs["emulated"], "HEAD")
    # A checkpoint in a deployment looks at its objects before it marks them as durable.
    bills["emulated"] = {**bills["emulated"], "s3 gets": bills["emulated"]["s3 gets"] - heads}
    if any(bill != bills["1 worker"] for bill in bills.values()):
        print(f"{name}: {bills}", file=sys.stderr)
    most = sum(
        usage.get("gets", 0) + usage.get("hits", 0)
        for usage in (json.loads(line).get("usage", {}) for line in _lines(home / "runs" / runs["1 worker"]))
    )
    gets = [bills[way]["s3 gets"] for way in (*list(WAYS)[:4], "pool", "emulated")]
    return (name, *gets, estimated["s3 gets"], counted, most)


def _beside(home: Path) -> list[dict[str, int]]:
    """The bills of all configurations as runs of one pool."""
    tables = ['seeds = "1"', "pool.workers = 3"]
    for number, own in enumerate(CONFIGURATIONS.values()):
        pairs = (setting.split("=") for setting in (*COMMON, *own))
        values = {key: value if value[0] in "[0123456789" or value == "true" else f'"{value}"' for key, value in pairs}
        tables += ["[[setting]]", f'name = "c{number}"', *(f"values.{key} = {value}" for key, value in values.items())]
    (home / "all.toml").write_text("\n".join(tables), encoding="utf-8")
    _marless(home, "study", "all.toml")
    folders = {path.parent.name: path.parent for path in (home / "studies" / "all").rglob("bill.json")}
    return [_counts(folders[f"c{number}-s1"]) for number in range(len(CONFIGURATIONS))]


def _counts(run: Path) -> dict[str, int]:
    """Operations on a run's bill that no clock enters."""
    return _quantities(json.loads((run / "bill.json").read_text(encoding="utf-8")))


def _quantities(bill: dict[str, Any]) -> dict[str, int]:
    found = {line["name"]: line["quantity"] for line in bill["lines"]}
    return {name: int(found[name]) for name in ("lambda requests", "s3 puts", "s3 gets")}


def _lines(run: Path) -> list[str]:
    return (run / "attempts.jsonl").read_text(encoding="utf-8").splitlines()


def _counted(home: Path, run: str, operation: str) -> int:
    """Requests of functions, or HEAD requests of the coordinator, as the account counted them."""
    running = account.find(home / account_folder())
    assert running is not None
    with urllib.request.urlopen(running.whereabouts.endpoint + PATH) as reply:
        counts = json.load(reply)["counts"]
    return sum(
        count["requests"]
        for count in counts
        if count["service"] == "s3"
        and count["operation"] == operation
        and (operation == "HEAD" or count["by"] == "function")
        and f"/runs/{run}/" in count["key"][1]
    )


def _marless(home: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "marless.cli.app", *arguments]
    said = subprocess.run(command, cwd=home, env=environment(), capture_output=True, encoding="utf-8", check=False)
    if said.returncode:
        raise RuntimeError(f"marless {' '.join(arguments)}: {said.stderr[-2000:]}")
    return said.stdout


if __name__ == "__main__":
    main()
