"""The first hour in an account, as a script: every command of a deployment, and the bill against Lambda's own reports.

``scripts/first_account --backend aws`` deploys a separate tenant, trains, kills functions, tears down, and prints a
table for docs/explanation/aws.md. With ``--backend emulated`` the same happens on this machine. It exits with 1 if a
step failed. The deployment is removed in any case.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from marless.functions.function_specs import DEPLOYED

ROOT = Path(__file__).resolve().parents[1]
TENANT = "first-account"
SMALL = (
    "algorithm.hidden=[8]",
    "actors.num_envs=8",
    "evaluation.every=4",
    "evaluation.episodes=4",
    "evaluation.final_episodes=4",
    "attempts=10",
    "stop.dollars=0.25",
)
# The least share of Lambda's reports on a bill: idle sweeps and turns are on no run's bill.
LEAST_SHARE = 0.9


class Failed(Exception):
    """A step failed. The message says what happened."""


@dataclass
class Account:
    """The commands in the folder `home`, each for the tenant of this script, and the table of their results."""

    home: Path
    where: tuple[str, ...]
    rows: list[tuple[str, float, str]] = field(default_factory=list)
    failed: bool = False

    def marless(self, *arguments: str) -> str:
        """Return the standard output of a command. Raises `Failed` with its last line."""
        command = [sys.executable, "-m", "marless.cli.app", *arguments]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(self.home), str(ROOT)))}
        ended = subprocess.run(
            command,
            cwd=self.home,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        if ended.returncode:
            lines = (ended.stderr or ended.stdout).strip().splitlines() or ["no message"]
            raise Failed(f"marless {arguments[0]}: exit code {ended.returncode}: {lines[-1]}")
        return ended.stdout

    def train(self, run: str, task: str, rounds: int, *more: str) -> None:
        """Trains a small team for `rounds`."""
        self.marless("train", f"task.name={task}", f"stop.rounds={rounds}", *SMALL, *more, "--run", run)

    def step(self, name: str, action: Callable[[], str]) -> None:
        """Does a step and adds its row."""
        print(f"{name} ...", file=sys.stderr, flush=True)
        began = time.monotonic()
        try:
            result = action()
        except Failed as error:
            result, self.failed = f"FAILED: {error}", True
        self.rows.append((name, time.monotonic() - began, result))

    def summary(self, run: str) -> dict[str, Any]:
        """Return the content of a run's `summary.json`. Raises `Failed` if there is none."""
        path = self.home / "runs" / run / "summary.json"
        if not path.is_file():
            raise Failed(f"{run} left no summary")
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found


def steps(account: Account) -> Iterator[tuple[str, Callable[[], str]]]:
    """The steps between deployment and teardown, in order."""
    there = account.where

    def driven() -> str:
        account.train("here", "toy/signal", 8)
        account.train("driven", "toy/signal", 8, *there)
        return _compared(account, "driven", "here")

    def detached() -> str:
        account.train("detached", "toy/signal", 8, *there, "--detach")
        account.marless("status", "--follow", "detached")
        return _compared(account, "detached", "here")

    def stopped() -> str:
        account.train("stopped", "toy/signal", 5000, *there, "--detach")
        time.sleep(5)
        account.marless("stop", "stopped")
        rounds = int(json.loads(account.marless("status", "stopped", "--json"))["round"])
        account.marless("resume", "stopped", "--detach", f"stop.rounds={rounds + 20}")
        account.marless("status", "--follow", "stopped")
        done = account.summary("stopped")
        if done["status"] != "finished":
            raise Failed(f"the resumed run is {done['status']}")
        return f"stopped after {rounds} rounds, resumed, finished after {done['rounds']}"

    def killed() -> str:
        account.train("sound", "fragile/signal", 8)
        account.train("killed", "fragile/signal", 8, *there)
        kills = account.marless("cloud", "logs", "--function", "actor", "--since", "1d", *there).count("signal: killed")
        if not kills:
            raise Failed("no function was killed; call it again")
        return f"{kills} times; {_compared(account, 'killed', 'sound')}"

    yield "driven run", driven
    yield "detached run", detached
    yield "stop, resume", stopped
    yield "functions killed", killed
    yield "bill and REPORT lines", lambda: _bills(account)
    yield "logs", lambda: f"{len(account.marless('cloud', 'logs', 'killed').splitlines())} lines of the run with kills"


def _compared(account: Account, run: str, local: str) -> str:
    """Compare a run with the local run. Other processors round differently, so a difference is an error only on this
    machine."""
    found, expected = account.summary(run), account.summary(local)
    same = found["weights_sha256"] == expected["weights_sha256"]
    if found["status"] != "finished" or (not same and "emulated" in account.where):
        raise Failed(f"{found['status']}, weights {'same' if same else 'differ'}")
    return f"weights {'as' if same else 'NOT as (another processor?)'} locally, ${found['dollars']['total']:.5f}"


def _bills(account: Account) -> str:
    """Compute on the bills of all runs against Lambda's REPORT lines, GB-seconds by function."""
    billed: dict[str, float] = defaultdict(float)
    for path in account.home.glob("runs/*/bill.json"):
        if path.parent.name in ("here", "sound"):
            continue
        for line in json.loads(path.read_text(encoding="utf-8"))["lines"]:
            billed[line["name"]] += float(line["quantity"])
    shares = []
    for role in DEPLOYED:
        shown = account.marless("cloud", "logs", "--function", role, "--since", "1d", "--json", *account.where)
        fields = [json.loads(line)["fields"] for line in shown.splitlines()]
        reported = sum(
            entry["billed_ms"] * entry["function_memory_size"] / 1024 / 1000 for entry in fields if "billed_ms" in entry
        )
        if not reported:
            raise Failed(f"no REPORT line of the {role}")
        shares.append((role, billed[f"{role} compute"], reported))
    text = ", ".join(f"{role} {bill:.2f} of {reported:.2f} GB-s" for role, bill, reported in shares)
    if any(bill < LEAST_SHARE * reported for _, bill, reported in shares):
        raise Failed(f"the bills are too low: {text}")
    return text


@contextmanager
def prepared(arguments: argparse.Namespace) -> Iterator[Account]:
    """Give a folder of runs with a task that gets killed, and the tenant's deployment while the block runs."""
    region = ("--region", arguments.region) if arguments.region else ()
    where = ("--backend", arguments.backend, "--tenant", TENANT, *region)
    project = ROOT / "scripts" / "fragile_task"
    plugin = ("--plugin", str(project)) if arguments.backend == "aws" else ()
    with tempfile.TemporaryDirectory(prefix="marless-first-account-") as folder:
        account = Account(Path(folder), where)
        install = ("-m", "pip", "install", "-qq", "--no-build-isolation", "--no-deps", "--target", folder, str(project))
        subprocess.run([sys.executable, *install], check=True)
        account.step("deploy", lambda: _deployed(account, *plugin))
        try:
            yield account
        finally:
            account.step("teardown", lambda: _torn_down(account))


def _deployed(account: Account, *plugin: str) -> str:
    said = account.marless("cloud", "deploy", *account.where, *plugin, "--yes")
    return next(line for line in said.splitlines() if line.startswith("stack "))


def _torn_down(account: Account) -> str:
    said = account.marless("cloud", "teardown", *account.where, "--force", "--yes")
    if f"nothing of tenant {TENANT} is left" not in said:
        raise Failed(said.strip().splitlines()[-1])
    return f"nothing of tenant {TENANT} is left"


def _table(account: Account, backend: str) -> str:
    rows = [f"| {name} | {seconds:.1f} | {result} |" for name, seconds, result in account.rows]
    head = [f"| step, back-end {backend} | seconds | result |", "|---|---|---|"]
    return "\n".join([*head, *rows])


def main() -> int:
    """Try a deployment and print the table. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/first_account", description=__doc__.split("\n\n")[0])
    parser.add_argument("--backend", choices=("emulated", "aws"), required=True)
    parser.add_argument("--region", help="the AWS region; default: that of the AWS configuration")
    arguments = parser.parse_args()
    with prepared(arguments) as account:
        if not account.failed:
            for name, action in steps(account):
                account.step(name, action)
    print(_table(account, arguments.backend))
    if arguments.backend == "aws":
        print(
            "Tomorrow, once the tag marless:tenant is activated, compare with what AWS billed: Billing, Cost Explorer,"
        )
        print(f"group by service, tag marless:tenant = {TENANT}.")
    return 1 if account.failed else 0


if __name__ == "__main__":
    sys.exit(main())
