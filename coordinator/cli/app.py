"""The console script `marless`: runs the command, and turns what went wrong into one line and an exit code."""

import difflib
import os
import sys
import tempfile
import time
import traceback
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from coordinator.errors import INTERNAL, USER_ERROR, UserError, one_line
from coordinator.runs.signals import Interrupted, end, heard
from infra.local.own_process import age_s

# Every command is the module of its name, loaded when it is called: nobody waits for the others' imports.
COMMANDS = {
    "train": "train a team of policies",
    "resume": "go on with a run, after a stop or with higher limits",
    "status": "how a run stands",
    "watch": "follow a run in the cloud, and fetch its policies when it has ended",
    "stop": "end a run resumably, after the tasks in flight",
    "logs": "what the functions of a run in the cloud wrote",
    "runs": "all runs",
    "evaluate": "play a run's policies and give their return",
    "ablate": "compare sharing, scaling and placement rules over seeds",
    "estimate": "what a run would cost and how long it would take",
    "config": "print the effective configuration, every key explained",
    "verify": "check a run's objects and weights against their hashes",
    "deploy": "make, or bring up to date, what runs on AWS need",
    "teardown": "remove a deployment with all its runs",
    "doctor": "what this machine has and what is missing",
}


class Parser(ArgumentParser):
    """Refuses in one line, as every command does."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see {self.prog} --help")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code: 0 done, 1 ended without what was asked for, 2 the user's to correct."""
    options = Namespace(started=time.monotonic() - (age_s() if argv is None else 0.0), folder=None)
    try:
        with heard(end):
            return _run(list(sys.argv[1:] if argv is None else argv), options)
    except BrokenPipeError:
        # Nobody reads on; without this the interpreter would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Interrupted as stop:
        begun = options.folder and (options.folder / "plan.json").is_file()
        name = options.folder.name if begun else ""
        return _say(f"stopped at once; go on with: marless resume {name}" if name else "interrupted", stop.code)
    except Exception as error:
        if _expected(error):
            return _say(one_line(error), USER_ERROR)
        return _say(f"internal error: {type(error).__name__}: {one_line(error)} ({_log(options)})", INTERNAL)


def _run(argv: list[str], options: Namespace) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0
    if argv[0] == "--version":
        print(f"marless {version('marless')}")
        return 0
    if argv[0] not in COMMANDS:
        nearest = difflib.get_close_matches(argv[0], COMMANDS, n=1)
        raise UserError(f"there is no command {argv[0]}; " + (f"did you mean {nearest[0]}?" if nearest else "marless"))
    command = import_module(f"coordinator.cli.commands.{argv[0]}")
    parser = Parser(
        prog=f"marless {argv[0]}",
        description=COMMANDS[argv[0]],
        epilog=getattr(command, "EXAMPLES", None),
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.arguments(parser)
    try:
        parser.parse_intermixed_args(argv[1:], options)
    except SystemExit as exit_:  # --help
        return int(exit_.code or 0)
    return int(command.run(options))


def _overview() -> str:
    lines = "\n".join(f"  {name:<10}{does}" for name, does in COMMANDS.items())
    return f"""usage: marless COMMAND ...

Trains multi-agent reinforcement-learning policies on serverless functions.

{lines}

Begin with `marless train`; `marless COMMAND --help` says more."""


def _say(line: str, code: int) -> int:
    print(f"marless: {line}", file=sys.stderr)
    return code


def _expected(error: Exception) -> bool:
    """Whether the message is meant for the user."""
    from coordinator.config.schema import ConfigError
    from coordinator.drive.ledger_items import Unresumable
    from functions.contract import CorruptObject, MissingExtra, NoSuchObject, StaleVersion, StorageFault

    ours = (ConfigError, Unresumable, CorruptObject, NoSuchObject, MissingExtra, StaleVersion, StorageFault)
    return isinstance(error, (UserError, *ours)) or (isinstance(error, OSError) and error.filename is not None)


def _log(options: Namespace) -> str:
    """Writes the traceback down; returns where it is."""
    path = options.folder / "error.log" if options.folder else Path(tempfile.gettempdir())
    try:
        if not options.folder:
            # A name that nobody can foresee: others may write there too.
            descriptor, name = tempfile.mkstemp(prefix="marless-error-", suffix=".log")
            os.close(descriptor)
            path = Path(name)
        path.write_text(traceback.format_exc(), encoding="utf-8")
    except OSError as error:
        return f"no details: {path} cannot be written: {error.strerror}"
    return f"details in {path}"


if __name__ == "__main__":
    sys.exit(main())
