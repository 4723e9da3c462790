"""marless resume: continues a run that was stopped, was killed, failed, or has new limits."""

from argparse import ArgumentParser, Namespace

from marless.cli import arguments as common
from marless.cli import dial_in_arguments as dial_in
from marless.cli.console import playable, report_ending
from marless.runs.train_and_resume import resume

EXAMPLES = """examples:
  marless resume                              the latest run
  marless resume stop.rounds=600
  marless resume first stop.rounds=600
  marless resume first log.to=tensorboard
  marless resume first functions.evaluator.timeout_s=300"""


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    common.run(parser)
    parser.add_argument(
        "settings",
        nargs="*",
        metavar="KEY=VALUE",
        help="new limits, stop.* and functions.*.timeout_s, log.to, or how a resource is asked, such as "
        "resources.judge.slots",
    )
    parser.add_argument(
        "--changed-code", action="store_true", help="continue even if code has changed, and record both hashes"
    )
    common.trust(parser)
    common.workers(parser)
    common.detach(parser)
    common.json(parser)
    dial_in.machines(parser)


def run(options: Namespace) -> int:
    """Continue an unfinished run. The exit code says how it ended."""
    name, settings = common.run_and_settings(options)
    folder = playable(name, options.trust)
    with dial_in.listening(options, [folder.config()]) as listener:
        drive = common.drive(options, listener)
        return report_ending(resume(folder, settings, drive, options.machines.head, options.changed_code))
