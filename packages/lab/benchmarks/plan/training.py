"""Trains the chosen plans of a task, here and in the emulated account, and keeps the hashes of their weights."""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from aws_emulator import account
from aws_emulator.network import PATH
from aws_emulator.settings import AccountSettings
from benchmarks.launch import ROOT, environment_with
from benchmarks.plan.pairs import constants_of, words_of
from benchmarks.plan.registered import File, Pair, Record, Trained
from marless.functions import kernel_variables
from marless.reports import provenance

# The folder of an emulated account, below the folder of runs.
_ACCOUNT = Path("runs") / ".emulated"
_SETTINGS = AccountSettings(processes=8, inherited_variables=kernel_variables.VARIABLES, faults=True)


def train_plans(file: File, task: str, records: Sequence[Record], entry_point: str) -> Iterator[Trained]:
    """Yield the runs that the record lacks: the chosen plans, and here the constants too.

    Placements that differ in memory alone train once.
    """
    ours = [one for one in records if one.task == task and one.origin.registration == file.registration]
    pairs = [one for one in ours if isinstance(one, Pair)]
    chosen = {pair.chosen: words_of(pair.settings) for pair in pairs if pair.chosen}
    (rollouts,) = (int(word.partition("=")[2]) for word in file.tasks[task] if word.startswith("actors.rollouts="))
    constants = constants_of(file, rollouts)
    known = {(one.placement, one.backend) for one in ours if isinstance(one, Trained)}
    with tempfile.TemporaryDirectory(prefix="plan-") as text:
        folder = Path(text)
        variables = environment_with(folder / "site", entry_point)
        for backend in ("local", *(["emulated"] if task in file.emulated.tasks else [])):
            placements = _without_memory(chosen if backend == "emulated" else chosen | constants)
            missing = {name: words for name, words in placements.items() if (name, backend) not in known}
            if not missing:
                continue
            with _account(folder, file.emulated.latency_s) if backend == "emulated" else nullcontext():
                for name, words in missing.items():
                    settings = [*file.settings, *file.tasks[task], *words]
                    yield _trained(pairs[0], name, backend, _command(file, backend, settings), folder, variables)


def _without_memory(placements: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the placements that differ in more than memory, by the name of the first."""
    forms: dict[tuple[str, ...], str] = {}
    for name, words in placements.items():
        forms.setdefault(tuple(word for word in words if "memory_mb=" not in word), name)
    return {name: list(words) for words, name in forms.items()}


def _command(file: File, backend: str, settings: list[str]) -> list[str]:
    where = ["--workers", str(file.workers)] if backend == "local" else ["--backend", backend]
    return [sys.executable, "-m", "marless.cli.app", "train", *settings, *where, "--json"]


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


def _trained(
    pair: Pair, placement: str, backend: str, command: list[str], folder: Path, variables: dict[str, str]
) -> Trained:
    before = os.getloadavg()[0]
    print(f"training {pair.task}, {placement}, {backend}", file=sys.stderr, flush=True)
    run = folder / "runs" / f"{backend}-{len(list((folder / 'runs').glob(f'{backend}-*')))}"
    subprocess.run([*command, "--run", run.name], check=True, cwd=folder, env=variables, stdout=subprocess.DEVNULL)
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    bill = json.loads((run / "bill.json").read_text(encoding="utf-8"))
    return Trained(
        task=pair.task,
        placement=placement,
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
