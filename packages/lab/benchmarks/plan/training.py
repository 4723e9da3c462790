"""Trains the chosen plans of a task, here and in the emulated account, and keeps the hashes of their weights."""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from aws_emulator import account
from aws_emulator.network import PATH
from aws_emulator.settings import AccountSettings
from benchmarks.launch import ROOT, environment_with
from benchmarks.plan.pairs import words_of
from benchmarks.plan.registered import File, Pair, Record, Trained
from marless.functions import kernel_variables
from marless.reports import provenance

# The folder of an emulated account, below the folder of runs.
_ACCOUNT = Path("runs") / ".emulated"
_SETTINGS = AccountSettings(processes=8, inherited_variables=kernel_variables.VARIABLES, faults=True)


def train_plans(file: File, task: str, records: Sequence[Record], entry_point: str) -> list[Trained]:
    """Return the runs that the record lacks. Plans that differ in memory alone train once."""
    ours = [one for one in records if one.task == task and one.origin.registration == file.registration]
    plans = {json.dumps(_settings(one)): one for one in ours if isinstance(one, Pair) and one.chosen}
    known = {(one.placement, one.backend) for one in ours if isinstance(one, Trained)}
    trained = []
    with tempfile.TemporaryDirectory(prefix="plan-") as text:
        folder = Path(text)
        variables = environment_with(folder / "site", entry_point)
        for backend in ("local", *(["emulated"] if task in file.emulated.tasks else [])):
            missing = [pair for pair in plans.values() if (pair.chosen, backend) not in known]
            if missing and backend == "emulated":
                with _account(folder, file.emulated.latency_s):
                    trained += [_trained(file, pair, backend, folder, variables) for pair in missing]
            else:
                trained += [_trained(file, pair, backend, folder, variables) for pair in missing]
    return trained


def _settings(pair: Pair) -> dict[str, object]:
    return {key: value for key, value in pair.settings.items() if not key.endswith("memory_mb")}


@contextmanager
def _account(folder: Path, latency_s: float) -> Iterator[None]:
    """An emulated account with slow requests, of the operator and of functions."""
    reading, writing = os.pipe()
    (folder / _ACCOUNT).parent.mkdir(exist_ok=True)
    settings = replace(_SETTINGS, code=(ROOT, folder, folder / "site"))
    started = account.start((folder / _ACCOUNT).absolute(), settings, lifeline=reading)
    try:
        conditions = json.dumps({"latency_s": latency_s, "functions": True}).encode()
        urllib.request.urlopen(
            urllib.request.Request(started.whereabouts.endpoint + PATH, conditions, method="POST")
        ).close()
        yield
    finally:
        started.stop()
        os.close(writing)


def _trained(file: File, pair: Pair, backend: str, folder: Path, variables: dict[str, str]) -> Trained:
    name, before = f"{backend}-{pair.number}", os.getloadavg()[0]
    words = [*file.settings, *file.tasks[pair.task], *words_of(_settings(pair))]
    command = [sys.executable, "-m", "marless.cli.app", "train", *words, "--run", name, "--json"]
    command += ["--workers", str(file.workers)] if backend == "local" else ["--backend", backend]
    print(f"training {pair.task}, {pair.chosen}, {backend}", file=sys.stderr, flush=True)
    subprocess.run(command, check=True, cwd=folder, env=variables, stdout=subprocess.DEVNULL)
    summary = json.loads((folder / "runs" / name / "summary.json").read_text(encoding="utf-8"))
    bill = json.loads((folder / "runs" / name / "bill.json").read_text(encoding="utf-8"))
    return Trained(
        task=pair.task,
        placement=pair.chosen,
        backend=backend,
        rounds=summary["rounds"],
        seconds=round(summary["train_seconds"], 2),
        dollars=float(f"{float(bill['total']):.6g}"),
        weights_sha256=summary["weights_sha256"],
        origin=msgspec.structs.replace(
            pair.origin,
            commit=provenance.commit(),
            processor=provenance.machine(),
            load=(round(before, 2), round(os.getloadavg()[0], 2)),
            date=datetime.now(UTC).date().isoformat(),
        ),
    )
