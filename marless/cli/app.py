"""The console script `marless`: runs a command and turns errors into one line and an exit code."""

import os
import shlex
import sys
import tempfile
import time
import traceback
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from marless.cli.mistakes import unknown_command, unknown_option
from marless.cli.typed_lines import complain
from marless.coordinator.errors import INTERNAL, USER_ERROR, UserError, of_the_system, one_line
from marless.functions.text.redaction import redact
from marless.functions.text.terminal_text import visible_text
from marless.infra.local.own_process import age_s
from marless.output import ERROR, OUTPUT, alone, prepare, say_text
from marless.program import copied_environment, manual, program_name
from marless.rounding import SUBNORMALS, exact_arithmetic
from marless.signals import Interrupted, end, handle_signals

# Every command is a module of its name, imported only when it is called, so that commands start quickly.
GROUPS = {
    "train": {
        "train": "train a team of policies",
        "resume": "continue a run that stopped, or raise its limits",
        "stop": "stop a run after the tasks in flight (you can resume it)",
        "study": "train many runs over settings and seeds, all at once",
        "ablate": "compare sharing, scaling and placement rules over seeds",
        "pretrain": "make a small language model for a task with agents that speak",
        "worker": "serve runs that another machine drives",
    },
    "before you train": {
        "check": "try an environment and show how a run would understand it",
        "config": "print the effective configuration with a description of every key",
        "estimate": "estimate the cost and duration of a run",
        "simulate": "simulate a run with more rollouts, other slots or faults",
        "doctor": "check which programs and packages are installed or missing",
        "completion": "print a script that lets bash or zsh complete commands",
    },
    "look at results": {
        "status": "show the progress of a run",
        "evaluate": "play a run's policies and print their return",
        "report": "write an HTML page about one run or several",
        "replay": "show a run's policies play, as an animated picture or in a window",
        "compare": "compare trained runs over seeds, with intervals",
        "crossplay": "play the policies of runs, or of a run's league, against one another",
        "timeline": "show a timeline of a run's functions",
        "bill": "print the cost of a run, line by line",
    },
    "keep and pass on": {
        "runs": "list all runs",
        "remove": "delete runs and studies",
        "archive": "write a run into one file",
        "unarchive": "bring back a run that was archived",
        "verify": "check a run's objects and weights against their hashes",
        "export": "write a run's policies or episodes for other programs",
        "log": "log a run to TensorBoard, Weights & Biases, MLflow or a CSV file",
    },
    "on AWS": {
        "deploy": "create or update the deployment that runs on AWS need",
        "teardown": "delete a deployment and all its runs",
        "policy": "print the IAM policy that training, or deploying, needs",
        "watch": "follow a run in the cloud and download its results when it ends",
        "logs": "print the logs of deployed functions",
    },
}
COMMANDS = {name: does for group in GROUPS.values() for name, does in group.items()}


# The folders of commands, and their modules there; the others are in `commands` itself.
_FOLDERS = {
    "checks": ("check", "doctor"),
    "deployment": ("deploy", "policy", "teardown"),
    "results": ("evaluate", "crossplay", "compare", "timeline", "bill", "verify", "log", "export", "replay", "report"),
}
# Commands that may import tasks and players of a user; the others run nothing that lies in the current folder.
_PLAY = {
    "check", "train", "pretrain", "worker", "resume", "study", "ablate", "estimate", "evaluate", "crossplay", "replay",
    "report", "log", "export",
}  # fmt: skip
# Commands whose results are files: what they say meanwhile may be lost without harm.
_DRIVE = {"train", "resume", "study", "ablate", "watch"}


class Parser(ArgumentParser):
    """Reports wrong arguments as a `UserError`, in one line."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see {self.prog.replace('marless', program_name(), 1)} --help")

    @property
    def options(self) -> list[str]:
        """Every option, such as ``--json``."""
        return [option for action in self._actions for option in action.option_strings]

    def complete_by(self, completers: Mapping[str, Callable[..., Any]]) -> None:
        """Has argcomplete ask these for the values of the arguments with these names."""
        for action in self._actions:
            if completer := completers.get(action.dest):
                action.completer = completer  # type: ignore[attr-defined]  # what argcomplete reads

    def _print_message(self, message: str, file: object = None) -> None:
        """The help, on a stream as it is today."""
        say_text(message)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code: 0 success, 1 incomplete, 2 an error that the user can correct."""
    if argv is not None:
        return _answer(list(argv), time.monotonic())
    if "_ARGCOMPLETE" in os.environ:  # set by the script of `marless completion`
        _complete(os.environ.get("COMP_LINE", ""))
    prepare()
    try:
        return _answer(sys.argv[1:], time.monotonic() - age_s())
    finally:
        OUTPUT.settle()
        ERROR.settle()


def _complete(line: str) -> None:
    """Answers a shell that asks how its line goes on, and ends the process. Only the command that the line names is
    imported."""
    import argcomplete

    from marless.cli.completion import completers

    parser = Parser(prog="marless", allow_abbrev=False)
    parsers = parser.add_subparsers()
    for name, does in COMMANDS.items():
        command = parsers.add_parser(name, help=does)
        if line.split()[1:2] == [name]:
            module_of(name).arguments(command)
            command.complete_by(completers(name))
    argcomplete.autocomplete(parser, always_complete_options=False)


def _answer(argv: list[str], start_s: float) -> int:
    options, OUTPUT.problem = Namespace(started=start_s, folder=None), ""
    try:
        with handle_signals(end), alone(), exact_arithmetic() as has_changed:
            if has_changed:
                complain(SUBNORMALS)
            code = _run(argv, options)
    except Interrupted as stop:
        is_resumable = options.folder and (options.folder / "plan.json").is_file()
        name = shlex.quote(options.folder.name) if is_resumable else ""
        line = f"stopped at once; go on with: {program_name()} resume {name}" if name else "interrupted"
        return _say(line, stop.code)
    except Exception as error:
        from marless.extras import lacking

        if _is_user_error(error):
            return _say(one_line(error), USER_ERROR)
        if explanation := _of_aws(error) or lacking(error):
            return _say(explanation, USER_ERROR)
        return _say(f"internal error: {type(error).__name__}: {one_line(error)} ({_log(options)})", INTERNAL)
    return code or (USER_ERROR if OUTPUT.problem and argv[0] not in _DRIVE else code)


@contextmanager
def _importable_folder() -> Iterator[None]:
    """Lets modules in the current folder be imported after all others, as in workers: tasks and players of a user."""
    new_paths = [
        folder for folder in (str(Path(__file__).resolve().parents[2]), str(Path.cwd())) if folder not in sys.path
    ]
    sys.path.extend(new_paths)
    try:
        yield
    finally:
        for folder in new_paths:
            sys.path.remove(folder)


def module_of(name: str) -> ModuleType:
    """The module of a command."""
    folder = "".join(f".{folder}" for folder, names in _FOLDERS.items() if name in names)
    return import_module(f"marless.cli.commands{folder}.{name}")


def parser_of(name: str) -> Parser:
    """What reads the arguments of a command."""
    command = module_of(name)
    examples, _, more = command.EXAMPLES.partition("\n\n")
    parser = Parser(
        prog=f"marless {name}",
        description=f"{COMMANDS[name]}\n\n{examples}",
        epilog=more,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.arguments(parser)
    return parser


def _run(argv: list[str], options: Namespace) -> int:
    if argv[:1] == ["help"] and argv[1:2]:
        argv = [argv[1], "--help"]
    elif argv[1:] == ["help"]:  # a run of this name is runs/help
        argv = [argv[0], "--help"]
    _require_own_environment()
    if not argv or argv[0] in ("-h", "--help", "help"):
        say_text(_overview())
        return 0
    if argv[0] in ("--version", "-V", "version"):
        say_text(f"marless {version('marless')}")
        return 0
    if argv[0] not in COMMANDS:
        raise UserError(unknown_command(argv, COMMANDS))
    parser = parser_of(argv[0])
    try:
        _, unknown = parser.parse_known_intermixed_args(argv[1:], options)
    except SystemExit as exit_:  # --help
        return int(exit_.code or 0)
    if unknown:
        raise UserError(unknown_option(unknown[0], argv, parser.options, hasattr(options, "settings")))
    _require_current_folder()
    with _importable_folder() if argv[0] in _PLAY else nullcontext():
        return int(module_of(argv[0]).run(options))


def _require_own_environment() -> None:
    if folder := copied_environment():
        raise UserError(
            f"{folder} was copied from {sys.prefix} and would run the program there; make it again"
            " (in a source tree: make install)"
        )


def _require_current_folder() -> None:
    try:
        Path.cwd()
    except FileNotFoundError:
        raise UserError("the current folder was deleted; change to another one, such as: cd ~") from None


def _overview() -> str:
    groups = (
        "\n".join([f"{title}:", *(f"  {name:<12}{does}" for name, does in group.items())])
        for title, group in GROUPS.items()
    )
    lines = "\n\n".join(groups)
    program = program_name()
    return f"""usage: {program} COMMAND ...

Trains multi-agent reinforcement-learning policies on serverless functions.

{lines}

Start with `{program} train`. `{program} COMMAND --help` describes a command.
The manual begins with {manual()}."""


def _say(line: str, code: int) -> int:
    complain(line)
    return code


def _is_user_error(error: Exception) -> bool:
    """Whether the message is meant for the user."""
    from marless.user_errors import is_user_error

    return is_user_error(error) or of_the_system(error)


def _of_aws(error: Exception) -> str:
    """What the AWS SDK has raised, in one line; '' for another error."""
    if "botocore.exceptions" not in sys.modules:
        return ""
    from botocore.exceptions import BotoCoreError, ClientError

    from marless.infra.aws.error_messages import explain

    return explain(error) if isinstance(error, (BotoCoreError, ClientError)) else ""


def _log(options: Namespace) -> str:
    """Writes the traceback to a file; returns a text that says where it is."""
    folder = options.folder if options.folder and options.folder.is_dir() else None
    path = folder / "error.log" if folder else Path(tempfile.gettempdir())
    try:
        if not folder:
            # An unpredictable name, because other users may write to this folder too.
            descriptor, name = tempfile.mkstemp(prefix="marless-error-", suffix=".log")
            os.close(descriptor)
            path = Path(name)
        # It holds what environments say, which is nobody else's business.
        path.touch(0o600)
        path.write_text(visible_text(redact(traceback.format_exc())), encoding="utf-8")
    except OSError as error:
        return f"no details: {path} cannot be written: {error.strerror}"
    return f"details in {path}"


if __name__ == "__main__":
    sys.exit(main())
