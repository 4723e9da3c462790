"""marless evaluate: plays the newest policies of a run, greedily, on start states that no other evaluation saw."""

from argparse import ArgumentParser, Namespace
from contextlib import closing

import msgspec
import numpy as np

from coordinator.backends import registry
from coordinator.cli import arguments as common
from coordinator.core import sides
from coordinator.core.opponents import judged
from coordinator.core.round_records import mean_scalars
from coordinator.core.state import Plan, State
from coordinator.reports import statistics
from coordinator.runs import cross_evaluation
from coordinator.runs.downloads import temporary_download
from coordinator.runs.episodes import play, tasks
from coordinator.runs.folder import RunFolder
from functions.contract import EvaluateReply

EXAMPLES = """examples:
  marless evaluate latest
  marless evaluate first --episodes 100
  marless evaluate first --against random --against second   each side of a task where agents compete"""


def arguments(parser: ArgumentParser) -> None:
    """What the command takes."""
    common.run(parser)
    parser.add_argument("--episodes", type=common.count, metavar="N", help="default: evaluation.final_episodes")
    parser.add_argument(
        "--against",
        action="append",
        metavar="random|RUN|FILE",
        help="where agents compete: each side alone, the others acting at random, or as that run's or file's policies",
    )
    common.workers(parser)
    common.json(parser)


def run(options: Namespace) -> int:
    """Plays the episodes and prints their return."""
    folder = RunFolder.find(options.run)
    if options.against:
        found = cross_evaluation.plays(folder, options.against, options.episodes)
        print(msgspec.json.encode(found).decode() if options.json else "\n".join(cross_evaluation.lines(found)))
        return 0
    with temporary_download(folder) as (stored, temporary):
        plan, state = stored.plan, stored.kept
        episodes = options.episodes or plan.config.evaluation.final_episodes
        with closing(registry.backend(registry.DEFAULT).open(temporary, options.workers)) as backend:
            played = play(
                backend.invoker, tasks(plan, state, episodes, f"evaluate-command-{episodes}"), plan.config.attempts
            )
    _show(options, plan, state, [reply for reply, _ in played])
    return 0


def _show(options: Namespace, plan: Plan, state: State, replies: list[EvaluateReply]) -> None:
    returns = [value for reply in replies for value in reply.returns]
    figures = statistics.summary(returns)
    weights = [len(reply.returns) for reply in replies]
    means = np.average([reply.agent_returns for reply in replies], axis=0, weights=weights).tolist()
    agents = dict(zip(state.task.agents, means, strict=True))
    by_side, own = sides.returns_of(state.task, means), mean_scalars(replies)
    if options.json:
        result = {"run": plan.run, "round": state.round, **msgspec.to_builtins(figures), "agents": agents}
        result |= {name: found for name, found in (("scalars", own), ("sides", by_side)) if found}
        print(msgspec.json.encode(result).decode())
        return
    print(f"{plan.run}, policies of round {state.round:,}, greedy, {figures.episodes:,} episodes on fresh start states")
    interval = f"   95 % interval {figures.ci95[0]:.2f} to {figures.ci95[1]:.2f}" if figures.ci95 else ""
    side = judged(plan.config, state.task)
    of = f"agents of side {side.name}" if side else "agents"
    print(f"return      {figures.mean:.2f}   IQM {figures.iqm:.2f}{interval}   (undiscounted, sum over {of})")
    for name, mean in own.items():
        print(f"{name:<11} {mean:.3f}")
    for name, mean in by_side.items():
        print(f"side        {name:<14}{mean:.2f}")
    for name, mean in agents.items():
        print(f"  {name:<24}{mean:.2f}")
