"""marless status: print the progress of a run from its ledger, without disturbing the run."""

from argparse import ArgumentParser, Namespace
from collections import Counter
from typing import Any

import msgspec

from marless.backends import registry
from marless.cli import arguments as common
from marless.cli.commands.results.bill import print_bill
from marless.cli.console import report_ending
from marless.cli.typed_lines import as_typed_here
from marless.cloud.remote_runs import find_run
from marless.coordinator.core import budget
from marless.coordinator.core.state import State
from marless.coordinator.errors import UserError
from marless.output import say, say_json
from marless.program import program_name
from marless.reports import statistics
from marless.reports.digits import figure
from marless.reports.lost_attempts import lost_attempts
from marless.reports.text import LOWER_LEARNING_RATE, counted, money, placement_text, plus_minus, seconds
from marless.runs.folder import RunFolder
from marless.runs.stored_run import Stored, look
from marless.signals import Signals

EXAMPLES = """examples:
  marless status                shows the latest run
  marless status first --json   shows runs/first as JSON
  marless status --bill         shows the cost of the run until now, line by line
  marless status --follow       follows a run in the cloud, and downloads its results when it ends"""


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    common.run(parser)
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--bill", action="store_true", help="print the bill of the run, line by line")
    instead.add_argument("--follow", action="store_true", help="follow a run in the cloud, then download its results")
    common.elsewhere(parser)
    common.json(parser)


def run(options: Namespace) -> int:
    """Prints the run's progress."""
    folder = find_run(options)
    if options.bill:
        return print_bill(folder, options.json)
    if options.follow:
        return _follow(folder, options)
    with look(folder) as stored_run:
        if options.json:
            say_json(_fields(folder, stored_run))
            return 0
        rows = _rows(folder, stored_run)
    for label, text in rows:
        say(f"{label:<12}{text}")
    return 0


def _follow(folder: RunFolder, options: Namespace) -> int:
    from marless.cloud.watching import Watch
    from marless.views import choose_view

    identity = folder.identity()
    if identity.deployment_ref is None:
        raise UserError(f"{folder.name} is a run on this machine; see {program_name()} status {folder.argument}")
    with Signals() as signals, folder.driving():
        backend = registry.backend(identity.backend).open(folder.path, 1, deployment_ref=identity.deployment_ref)
        view = choose_view(options.json)
        try:
            ending = Watch(folder, identity, backend, view, signals, options.started).follow()
        finally:
            view.close()
            backend.close()
    return report_ending(ending)


def _rows(folder: RunFolder, stored_run: Stored) -> list[tuple[str, str]]:
    state, stop = stored_run.state, stored_run.plan.config.stop
    status = stored_run.standing
    limits = [f"{name} {value:,}" for name, value in _limits(stored_run) if value is not None]
    dollars = budget.dollars(stored_run.plan, state.meter)
    rows = [
        ("run", stored_run.plan.run),
        ("status", status + (f" ({as_typed_here(state.reason)})" if state.reason else "")),
        ("round", f"{state.round:,}" + (f", {state.phase} of the next" if state.status != "finished" else "")),
        ("limits", ", ".join(limits)),
        ("steps", f"{state.env_steps:,} in {seconds(state.seconds)}"),
        *_next(state),
        *_returns(state),
        ("bill", money(float(dollars)) + (f" of {money(stop.dollars)}" if stop.dollars is not None else "")),
        *(("lost", text) for text in [str(lost_attempts(stored_run.plan, state))] if text),
        *(("task", as_typed_here(problem)) for problem in _problems(state)),
        *(("code", change.text) for change in stored_run.identity.changes),
        *_workers(folder, status),
        ("folder", str(folder.path)),
        *(("problem", problem) for problem in (stored_run.problem, stored_run.lost) if problem),
    ]
    if status in ("interrupted", "stopped", "failed") and not state.refused:
        go_on = f"{program_name()} resume {folder.argument}"
        rows.append(("advice", LOWER_LEARNING_RATE) if state.diverged else ("go on", go_on))
    return rows


def _fields(folder: RunFolder, stored_run: Stored) -> dict[str, Any]:
    state, best = stored_run.state, stored_run.state.best
    return {
        "run": stored_run.plan.run,
        "folder": str(folder.path),
        "status": stored_run.standing,
        "reason": state.reason,
        "round": state.round,
        "phase": state.phase,
        "limits": {name: value for name, value in _limits(stored_run) if value is not None},
        "env_steps": state.env_steps,
        "team": state.team.groups if state.team else None,
        "rollouts": state.controller.rollouts if state.round_placement else None,
        "placement": state.round_placement.rule if state.round_placement else None,
        "train_seconds": state.seconds,
        "final_return": statistics.summary(state.final) if state.final else None,
        "best": {"mean": best.mean, "round": best.round} if best else None,
        "dollars": float(budget.dollars(stored_run.plan, state.meter)),
        "lost": msgspec.to_builtins(lost_attempts(stored_run.plan, state)),
        "code_changes": stored_run.identity.changes,
        "problems": [*_problems(state), *([stored_run.lost] if stored_run.lost else [])],
    }


def _limits(stored_run: Stored) -> list[tuple[str, float | None]]:
    stop = stored_run.plan.config.stop
    return [
        ("rounds", stop.rounds),
        ("env_steps", stop.env_steps),
        ("seconds", stop.seconds),
        ("dollars", stop.dollars),
        ("return", stop.return_),
    ]


def _returns(state: State) -> list[tuple[str, str]]:
    if state.final:
        return [("return", f"{plus_minus(state.final)} (final, {len(state.final):,} episodes)")]
    if state.best is not None:
        return [("return", f"{figure(state.best.mean)} (best evaluation, after round {state.best.round:,})")]
    return []


def _next(state: State) -> list[tuple[str, str]]:
    if state.round_placement is None:
        return []
    fixed_agents = len(state.team.fixed) if state.team else 0
    opponents = f", against {counted(fixed_agents, 'fixed opponent')}" if fixed_agents else ""
    teams = f"{len(state.groups)} for {counted(len(state.env_spec.agents) - fixed_agents, 'agent')}{opponents}"
    return [
        ("networks", teams),
        (
            "a round",
            f"{counted(state.controller.rollouts, 'rollout')}, placement {placement_text(state.round_placement)}",
        ),
    ]


def _workers(folder: RunFolder, status: str) -> list[tuple[str, str]]:
    from marless.infra.local.census import in_words, noted

    slots = noted(folder.path / "workers") if status == "running" else Counter[str]()
    hosts = ", ".join(f"{host} {count:,}" for host, count in sorted(slots.items()))
    return [("workers", f"{in_words(slots)}: {hosts}")] if slots else []


def _problems(state: State) -> list[str]:
    return [
        f"{work}: attempt {slot.attempt + 1}" + (f", before it: {slot.problem}" if slot.problem else ", failed before")
        for work, slot in sorted(state.slots.items())
        if slot.failures or slot.problem
    ]
