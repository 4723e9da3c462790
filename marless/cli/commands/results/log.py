"""marless log: writes the whole log of a run into TensorBoard, Weights & Biases, MLflow or a CSV file."""

from argparse import ArgumentParser, Namespace

from marless.cli import arguments as common
from marless.coordinator.errors import FINISHED, UserError
from marless.loggers import registry
from marless.loggers.valid_names import renaming_text
from marless.output import note, say_text
from marless.program import program_name
from marless.reports.journal import read
from marless.reports.text import table
from marless.runs import summary
from marless.runs.folder import METRICS, POLICIES, RunFolder
from marless.runs.run_log import write_log
from marless.runs.run_store import RUNS
from marless.runs.stored_run import look

EXAMPLES = """examples:
  marless log                                 the latest run, into its progress.csv
  marless log my_run --to tensorboard,wandb
  marless train log.to=tensorboard            logs while it trains"""


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    common.run(parser)
    parser.add_argument(
        "--to", default="csv", metavar="NAMES", help=f"of {', '.join(registry.names())} (default: %(default)s)"
    )


def run(options: Namespace) -> int:
    """Logs the run and prints where."""
    folder, names = RUNS.find(options.run), list(dict.fromkeys(options.to.split(",")))
    registry.require(names)
    with folder.driving():
        identity, config, lines = folder.identity(), folder.config(), read(folder.path / METRICS)
        if not lines:
            raise UserError(f"{folder.name} has no finished round; see {program_name()} status {folder.argument}")
        agents, run_summary = _agents(folder), summary.read(folder)
        rows = {name: write_log(name, folder, identity, config, lines, agents, run_summary) for name in names}
    say_text(table(("logger", "written to"), [(name, where) for name, (where, _) in rows.items()]))
    for name, (_, new_names) in rows.items():
        if new_names:
            note(renaming_text(name, new_names))
    return FINISHED


def _agents(folder: RunFolder) -> tuple[str, ...]:
    from marless.reports.policy import load_policy

    if (folder.path / POLICIES).is_file():
        return load_policy(folder.path / POLICIES).agents
    with look(folder) as stored_run:
        return stored_run.state.env_spec.agents
