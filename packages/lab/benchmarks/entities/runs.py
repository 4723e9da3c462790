"""Runs of arms. Each is measured alone, in a separate process."""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from benchmarks import imagined, outsider
from benchmarks.baseline.measure import share_of_passes
from benchmarks.entities.permuted import ENTRY_POINT
from benchmarks.entities.registered import Arm, Baseline
from benchmarks.launch import environment_with, measured
from benchmarks.training import NAME, command
from marless.coordinator.config.loading import load
from marless.coordinator.core.state import RoundLine
from marless.functions.environments.roles.partition import roles_of
from marless.reports import provenance
from marless.reports.journal import read
from marless.reports.policy import load_policy
from marless.reports.statistics import adjusted_rand

# The program of a run: the product, and the loops of the baseline.
PROGRAM = (*provenance.COMPUTING, "benchmarks/baseline")
# Environments that only these runs have.
TASKS = ENTRY_POINT + imagined.ENTRY_POINTS + outsider.ENTRY_POINTS


class Run(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run. Keys of `steps_to`, `seconds_to` and `dollars_to` are targets. Missed targets are null.

    `seconds_to` are training seconds. `launch` are the seconds from the command to its first task, 0 for a baseline.
    `first_round` are the seconds of the first round, and `dollars` the price of the training on functions.
    In the share `learning` of the time, learners worked. `win` is the share of battles that the best policies
    won. `best` and `mpe2` are their mean returns, over fresh episodes here and in mpe2's own environment. `teams` are
    the mean returns of the final policies by team, or the shares of battles won. `share` is the share of the passes in
    the time of the torch learner, the baseline's guard. `groups` is the adjusted Rand index of the last groups against
    the true roles, or against the first groups on a task without roles. `parts` is the number of the last groups.
    """

    study: str
    arm: str
    seed: int
    registration: str
    program: str
    env_steps: int
    rate: float
    launch: float = 0.0
    steps_to: dict[str, int | None]
    seconds_to: dict[str, float | None]
    dollars_to: dict[str, float | None] = {}
    first_round: float | None = None
    learning: float | None = None
    dollars: float | None = None
    best: float | None = None
    win: float | None = None
    mpe2: float | None = None
    teams: dict[str, float] = {}
    share: float | None = None
    groups: float | None = None
    parts: int | None = None
    weights_sha256: str = ""
    commit: str | None
    processor: str
    cores: int
    load: tuple[float, float]
    date: str


def key(run: Run) -> tuple[str, str, int, str, str]:
    """Return the identity of a run. A changed registration or program makes another run."""
    return run.study, run.arm, run.seed, run.registration, run.program


def program() -> str:
    """Return the hash of the program that runs now."""
    return provenance.code_sha256(provenance.ROOT, PROGRAM)


def measure(arm: Arm, seed: int, workers: int = 2) -> Run:
    """Train an arm. Raises `CalledProcessError`. Baselines have no workers."""
    before = os.getloadavg()[0]
    settings = [text.replace("{seed}", str(seed)) for text in arm.settings]
    if arm.baseline is None:
        values = _marless(arm, seed, settings, workers)
    else:
        values = _baseline(arm, arm.baseline, seed, settings)
    return Run(
        study=arm.study,
        arm=arm.name,
        seed=seed,
        registration=arm.registration,
        program=program(),
        **conditions(before),
        **values,
    )


def conditions(load_before: float) -> dict[str, Any]:
    """Return the commit, the machine, its load before and now, and the date, as records store them."""
    return {
        "commit": provenance.commit(),
        "processor": provenance.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "load": (round(load_before, 2), round(os.getloadavg()[0], 2)),
        "date": datetime.now(UTC).date().isoformat(),
    }


def _baseline(arm: Arm, form: Baseline, seed: int, settings: list[str]) -> dict[str, Any]:
    record = measured(f"baseline.{form.form}", *settings, "--seed", seed, *form.options, "--json")
    points = [(point["greedy_return"], point["env_steps"], point["seconds"], None) for point in record["points"]]
    guard = {"share": share_of_passes(seed)["share"]} if form.form == "torch_form" else {}
    return {
        "env_steps": record["env_steps"],
        "teams": record.get("teams", {}),
        "rate": record["env_steps_per_second"],
        "weights_sha256": record["weights_sha256"],
        **_reached(arm, points),
        **guard,
    }


def _marless(arm: Arm, seed: int, settings: list[str], workers: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="entities-") as text:
        folder = Path(text)
        variables, began = environment_with(folder / "site", TASKS), time.time()
        words = command(workers, f"seed={seed}", *settings)
        subprocess.run(words, check=True, cwd=folder, env=variables, stdout=subprocess.DEVNULL)
        run = folder / "runs" / NAME
        lines, summary = read(run / "metrics.jsonl"), json.loads((run / "summary.json").read_text(encoding="utf-8"))
        attempts = [json.loads(line) for line in (run / "attempts.jsonl").read_bytes().splitlines()]
        mpe2 = _return_in_mpe2(run / "best_policies.safetensors", seed, arm.mpe2_episodes)
        teams = {team: _played(team, folder, variables) for team in arm.teams}
    return {
        "env_steps": summary["env_steps"],
        "rate": (lines[-1].env_steps - lines[0].env_steps) / (lines[-1].seconds - lines[0].seconds),
        "launch": round(attempts[0]["asked"] - began, 3),
        "first_round": lines[0].seconds,
        "learning": _share_of_learners(attempts),
        "dollars": lines[-1].dollars,
        "best": summary["absolute_return"]["mean"],
        "win": summary["absolute_env_metrics"].get("win"),
        "mpe2": mpe2,
        "teams": teams,
        "groups": _agreement(lines[0].team, lines[-1].team, settings),
        "parts": len(set(lines[-1].team)),
        "weights_sha256": summary["weights_sha256"],
        **_reached(arm, [*map(_point, filter(_evaluated, lines)), *_last_point(lines[-1], summary, settings)]),
    }


def _played(team: str, folder: Path, variables: dict[str, str]) -> float:
    """Return the share of battles that the final policies win with a team, or their mean return."""
    chosen = f"task.agents={team}" if team.isdigit() else f"task.name={team}"
    words = [sys.executable, "-m", "marless.cli.app", "evaluate", NAME, chosen, "--json"]
    played = subprocess.run(words, check=True, cwd=folder, env=variables, stdout=subprocess.PIPE)
    result = json.loads(played.stdout)
    return float(result.get("env_metrics", {}).get("win", result["mean"]))


def _share_of_learners(attempts: list[dict[str, Any]]) -> float | None:
    """Return how much of the time learners worked, as a share, without the first round. Fused rounds have none."""
    rounds = [one for one in attempts if one["round"] > 0 and one["kind"] != "evaluate"]
    spans = sorted((one["ended"] - one["duration_ms"] / 1000, one["ended"]) for one in rounds if one["kind"] == "learn")
    start, worked = float(rounds[0]["asked"]), 0.0
    latest = start
    for begin, end in spans:
        worked += max(0.0, end - max(begin, latest))
        latest = max(latest, end)
    return worked / (latest - start) if spans else None


def _agreement(first: tuple[int, ...], last: tuple[int, ...], settings: list[str]) -> float | None:
    """Return the adjusted Rand index of the last groups and the true roles, or the first groups without roles.

    Teams of one agent have none.
    """
    if len(last) < 2:
        return None
    has_roles = any(text.startswith("task.name=roles/") for text in settings)
    return adjusted_rand(last, roles_of(load(None, settings).task) if has_roles else first)


def _point(line: RoundLine) -> tuple[float, int, float, float]:
    """Return an evaluation's return, the steps that its policies had learned from, and seconds and dollars so far."""
    assert line.evaluation is not None
    return line.evaluation.mean, line.evaluation.env_steps, line.seconds, line.dollars


def _evaluated(line: RoundLine) -> bool:
    return line.evaluation is not None


def _last_point(line: RoundLine, summary: dict[str, Any], settings: list[str]) -> list[tuple[float, int, float, float]]:
    """Return the evaluation that ended a run by `stop.return`, which no line has, with that return."""
    least = [float(text.removeprefix("stop.return=")) for text in settings if text.startswith("stop.return=")]
    return [(least[-1], line.env_steps, line.seconds, line.dollars)] if summary["reason"] == "return" else []


def _reached(arm: Arm, points: Sequence[tuple[float, int, float, float | None]]) -> dict[str, Any]:
    """Return steps, seconds and dollars to each target. A baseline has no dollars."""
    missed = (-math.inf, None, None, None)
    first = {f"{target:g}": next((p for p in points if p[0] >= target), missed) for target in arm.targets}
    return {
        "steps_to": {target: steps for target, (_, steps, _, _) in first.items()},
        "seconds_to": {target: seconds for target, (_, _, seconds, _) in first.items()},
        "dollars_to": {} if arm.baseline else {target: dollars for target, (_, _, _, dollars) in first.items()},
    }


def _return_in_mpe2(policies: Path, seed: int, episodes: int) -> float | None:
    """Return the mean greedy return in `simple_spread` of mpe2, summed over agents. Return None for 0 episodes."""
    if not episodes:
        return None
    from mpe2 import simple_spread_v3

    team = load_policy(policies)
    world = simple_spread_v3.parallel_env(N=len(team.agents), max_cycles=25)
    returns = []
    for episode in range(episodes):
        observations, total = world.reset(seed=seed * 100_000 + episode)[0], 0.0
        team.start()
        while world.agents:
            observations, rewards, *_ = world.step(team.act(observations))
            total += sum(rewards.values())
        returns.append(total)
    return fmean(returns)
