"""marless evaluate: plays the newest policies of a run, greedily, on start states that no other evaluation saw."""

import tempfile
from argparse import ArgumentParser, Namespace
from contextlib import closing
from pathlib import Path

import msgspec
import numpy as np

from coordinator.cli import options as common
from coordinator.cli.episodes import bring, play, tasks
from coordinator.cli.errors import UserError
from coordinator.cli.folder import RunFolder
from coordinator.cli.stored import Stored, look
from coordinator.reports import statistics
from coordinator.state import Plan, State
from functions import codec
from functions.contract import EvaluateReply, NoSuchObject
from infra import wiring
from infra.files import FileStorage

# While a run goes on, its older objects disappear; by then it has newer policies.
_TRIES = 5

EXAMPLES = """examples:
  marless evaluate latest
  marless evaluate first --episodes 100"""


def arguments(parser: ArgumentParser) -> None:
    common.run(parser)
    parser.add_argument("--episodes", type=common.count, metavar="N", help="default: evaluation.final_episodes")
    common.workers(parser)
    common.json(parser)


def run(options: Namespace) -> int:
    """Plays the episodes and prints their return."""
    folder = RunFolder.find(options.run)
    with tempfile.TemporaryDirectory(prefix="marless-") as temporary:
        found = _fetch(folder, Path(temporary))
        plan, state = found.plan, found.kept
        episodes = options.episodes or plan.config.evaluation.final_episodes
        with closing(wiring.BACKENDS["local"](Path(temporary), options.workers)) as backend:
            played = play(
                backend.invoker, tasks(plan, state, episodes, f"evaluate-command-{episodes}"), plan.config.attempts
            )
    _show(options, plan, state, [reply for reply, _ in played])
    return 0


def _fetch(folder: RunFolder, temporary: Path) -> Stored:
    """The run, its newest policies brought to another folder."""
    for _ in range(_TRIES):
        with look(folder) as found:
            if not found.kept.policies:
                raise UserError(f"{folder.name} has no policies yet")
            try:
                _bring(folder, found, temporary / "objects")
            except (FileNotFoundError, NoSuchObject):
                continue
            return found
    raise UserError(f"{folder.name}: objects of its newest policies are missing; see marless verify {folder.name}")


def _bring(folder: RunFolder, found: Stored, target: Path) -> None:
    """A run in the cloud is played here too: its policies are fetched."""
    if found.identity.residence is None:
        bring(folder.path / "objects", target, found.kept.policies)
        return
    objects = FileStorage(target)
    for ref in found.kept.policies:
        objects.put(ref.key, codec.verified(ref, found.storage.get(ref.key)))


def _show(options: Namespace, plan: Plan, state: State, replies: list[EvaluateReply]) -> None:
    returns = [value for reply in replies for value in reply.returns]
    figures = statistics.summary(returns)
    weights = [len(reply.returns) for reply in replies]
    means = np.average([reply.agent_returns for reply in replies], axis=0, weights=weights).tolist()
    agents = dict(zip(state.task.agents, means, strict=True))
    if options.json:
        result = {"run": plan.run, "round": state.round, **msgspec.to_builtins(figures), "agents": agents}
        print(msgspec.json.encode(result).decode())
        return
    print(f"{plan.run}, policies of round {state.round:,}, greedy, {figures.episodes:,} episodes on fresh start states")
    interval = f"   95 % interval {figures.ci95[0]:.2f} to {figures.ci95[1]:.2f}" if figures.ci95 else ""
    print(f"return      {figures.mean:.2f}   IQM {figures.iqm:.2f}{interval}   (undiscounted, sum over agents)")
    for name, mean in agents.items():
        print(f"  {name:<24}{mean:.2f}")
