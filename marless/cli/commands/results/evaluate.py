"""marless evaluate: plays the newest policies of a run on start states that no other evaluation saw."""

from argparse import ArgumentParser, Namespace

import msgspec

from marless.cli import arguments as common
from marless.cli.console import playable
from marless.coordinator.errors import UserError
from marless.output import say, say_json, say_text
from marless.reports.notebook.shown_result import ShownResult
from marless.runs import cross_evaluation
from marless.runs.evaluation import EvaluationResult, evaluate
from marless.views.progress_lines import progress_lines

EXAMPLES = """examples:
  marless evaluate latest
  marless evaluate first --episodes 100
  marless evaluate first task.options.pairs=unseen   ... a task with other options, whose agents see and do the same
  marless evaluate first evaluation.greedy=false   ... with sampled actions, if greedy policies stand still
  marless evaluate first --agents 5          a policy over entities, with more agents than it was trained with
  marless evaluate first --against random --against second   each side of a task where agents compete
  marless evaluate four --against scripted   ... against the task's scripted player

docs/how-to/opponents.md explains scripted players, and how to write one."""

# The fields that only some evaluations have.
_OPTIONAL = ("env_metrics", "sides", "settings")


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    common.run(parser)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="other task.*, or evaluation.greedy=false")
    parser.add_argument(
        "--episodes", type=common.count, metavar="N", help="episodes (default: evaluation.final_episodes)"
    )
    common.team_size(parser)
    parser.add_argument(
        "--against",
        action="append",
        metavar="random|scripted|RUN|FILE",
        help="opponents of each side if agents compete: random, scripted, or the policies of a run or file",
    )
    common.trust(parser)
    common.workers(parser)
    common.json(parser)


def run(options: Namespace) -> int:
    """Plays the episodes and prints their return."""
    name, settings = common.run_and_settings(options)
    if options.agents:
        settings = [*settings, f"task.agents={options.agents}"]
    folder = playable(name, options.trust)
    if options.against:
        if settings:
            raise UserError(f"--against plays the run's own task; leave {settings[0]} away")
        with progress_lines() as progress:
            result = cross_evaluation.plays(folder, options.against, options.episodes, progress)
        say_json(result) if options.json else _say(result)
        return 0
    with progress_lines() as progress:
        evaluation = evaluate(folder, options.workers, options.episodes, settings, progress)
    _show(evaluation, options.json)
    return 0


def _show(evaluation: EvaluationResult, as_json: bool) -> None:
    if as_json:
        result = {
            "run": evaluation.run,
            "round": evaluation.round,
            **msgspec.to_builtins(evaluation.returns),
            "agents": evaluation.agents,
        }
        result |= {name: value for name in _OPTIONAL if (value := getattr(evaluation, name))}
        say_json(result)
        return
    _say(evaluation)


def _say(result: ShownResult) -> None:
    say(result.headline)
    for section in result.sections:
        say_text(section.text)
