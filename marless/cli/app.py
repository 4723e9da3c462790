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
from textwrap import fill, wrap
from types import ModuleType
from typing import Any, NoReturn

from marless.cli.command_names import (
    COMMANDS,
    FAMILIES,
    OFFERED,
    OLD_COMMANDS,
    command_and_rest,
    family_overview,
    overview,
)
from marless.cli.mistakes import unknown_command, unknown_option
from marless.cli.typed_lines import complain
from marless.coordinator.errors import INTERNAL, USER_ERROR, UserError, of_the_system, one_line
from marless.functions.plug_in_registry import Registry
from marless.functions.text.redaction import redact
from marless.functions.text.terminal_text import visible_text
from marless.infra.local.own_process import age_s
from marless.output import ERROR, OUTPUT, alone, prepare, say_text, show_remarks
from marless.program import copied_environment, manual, program_name
from marless.rounding import SUBNORMALS, exact_arithmetic
from marless.signals import Interrupted, end, handle_signals

# The folders of commands of one word, and their modules there. The others are in `commands` itself.
_FOLDERS = {
    "checks": ("check", "doctor"),
    "results": ("status", "evaluate", "crossplay", "compare", "log", "export", "replay", "report"),
}
# Commands that may import tasks and players of a user. The others run no code of the current folder.
_PLAY = {
    "check", "train", "pretrain", "worker", "resume", "study", "ablate", "estimate", "plan", "evaluate", "crossplay",
    "replay", "report", "log", "export",
}  # fmt: skip
# Commands of other packages, and the extras that install this project's packages.
_OF_CLOUD = ("archive", "bill", "budget", "doctor", "prune", "remove", "restore", "runs")
_EXTRAS = {"play": "zoo", "serve": "server", "server": "server", **{f"cloud {name}": "cloud" for name in _OF_CLOUD}}
_GUESTS = Registry[ModuleType]("marless.commands", {}, "command {}".format, error=UserError, extras=_EXTRAS)
# Columns of the overview, and the fewest columns for the explanation of an example.
_WIDTH, _NARROW = 79, 24
# Commands with files as results. Their messages meanwhile may be lost without harm.
_DRIVE = {"train", "resume", "study", "ablate", "watch"}


class _Help(RawDescriptionHelpFormatter):
    """Wraps paragraphs, and explanations of examples: in their column, or below the example if the column is narrow."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        blocks = text.strip().split("\n\n")
        return "\n\n".join(
            _wrap_examples(block, width) if "\n  " in block else fill(block, width, break_on_hyphens=False)
            for block in blocks
        )


def _wrap_examples(block: str, width: int) -> str:
    lines = []
    for line in block.splitlines():
        command, _, explanation = line.rpartition("  ")
        column = len(line) - len(explanation)
        if column > width - _NARROW and len(line) > width:
            lines += [command.rstrip(), f"      {explanation}"]
        else:
            lines += wrap(line, width, subsequent_indent=" " * max(column, 6), break_on_hyphens=False)
    return "\n".join(lines)


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
        say_text(message)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns the exit code: 0 success, 1 incomplete, 2 an error that the user can correct."""
    if argv is not None:
        return _answer(list(argv), time.monotonic())
    if "_ARGCOMPLETE" in os.environ:  # set by the script of `marless doctor --completion`
        _complete(os.environ.get("COMP_LINE", ""))
    prepare()
    try:
        return _answer(sys.argv[1:], time.monotonic() - age_s())
    finally:
        OUTPUT.settle()
        ERROR.settle()


def _complete(line: str) -> None:
    """Answer a shell that completes a line, and end the process. Only the command that the line names is imported."""
    import argcomplete

    from marless.cli.completion import completers

    typed, _ = command_and_rest([*line.split()[1:3], ""])
    parser = Parser(prog="marless", allow_abbrev=False)
    below = {"": parser.add_subparsers()}
    for name, does in OFFERED.items():
        family, _, word = name.rpartition(" ")
        command = below[family].add_parser(word, help=does)
        if name in FAMILIES:
            below[name] = command.add_subparsers()
        elif name == typed:
            module_of(name).arguments(command)
            command.complete_by(completers(name))
    argcomplete.autocomplete(parser, always_complete_options=False)


def _answer(argv: list[str], start_s: float) -> int:
    options, OUTPUT.problem = Namespace(started=start_s, folder=None), ""
    show_remarks()
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
    is_driving = {"status", "--follow"} <= {*argv} or _DRIVE & {*argv[:1]}
    return code or (USER_ERROR if OUTPUT.problem and not is_driving else code)


@contextmanager
def _importable_folder() -> Iterator[None]:
    """Let modules in the current folder be imported after all others: tasks and players of a user."""
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
    """Return the module of a command. Raises `UserError` for one of a package that is not installed."""
    if _GUESTS.is_ours(name):
        return _GUESTS.lookup(name)
    folder = "".join(f".{folder}" for folder, names in _FOLDERS.items() if name in names)
    return import_module(f"marless.cli.commands{folder}.{name.replace(' ', '.')}")


def parser_of(name: str) -> Parser:
    """Return the parser of a command's arguments."""
    command = module_of(name)
    examples, _, more = command.EXAMPLES.partition("\n\n")
    parser = Parser(
        prog=f"marless {name}",
        description=f"{COMMANDS.get(name, 'an earlier name of `marless study`')}\n\n{examples}",
        epilog=more,
        formatter_class=_Help,
        allow_abbrev=False,
    )
    command.arguments(parser)
    return parser


def _run(argv: list[str], options: Namespace) -> int:
    _require_own_environment()
    if argv[:1] == ["help"]:
        argv = [*argv[1:], "--help"]
    elif argv and command_and_rest(argv)[1] == ["help"]:  # a run of this name is runs/help
        argv = [*argv[:-1], "--help"]
    if text := _TEXTS.get(" ".join(argv)):
        say_text(text())
        return 0
    name, words = command_and_rest(argv)
    if name in OLD_COMMANDS:
        complain(f"`marless {name}` is now `marless {OLD_COMMANDS[name]}")
    if not name:
        raise UserError(unknown_command([" ".join(argv)] if argv[0] in FAMILIES else argv, COMMANDS))
    return _call(name, words, options)


def _call(name: str, words: list[str], options: Namespace) -> int:
    parser = parser_of(name)
    try:
        _, unknown = parser.parse_known_intermixed_args(words, options)
    except SystemExit as exit_:  # --help
        return int(exit_.code or 0)
    if unknown:
        raise UserError(unknown_option(unknown[0], [name, *words], parser.options, hasattr(options, "settings")))
    _require_current_folder()
    with _importable_folder() if name in _PLAY else nullcontext():
        return int(module_of(name).run(options))


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
    program = program_name()
    usage = f"usage: {program} COMMAND ... (trains many agents on serverless functions)"
    advice = f"Begin: `{program} train`. Help on a command: `{program} COMMAND --help`. Manual:"
    return f"{fill(usage, _WIDTH)}\n\n{overview()}\n\n{fill(advice, _WIDTH)}\n{manual()}"


_TEXTS: dict[str, Callable[[], str]] = {
    **dict.fromkeys(("", "-h", "--help"), _overview),
    **dict.fromkeys(("-V", "--version", "version"), lambda: f"marless {version('marless')}"),
    **dict.fromkeys(
        ("cloud", "cloud -h", "cloud --help"),
        lambda: f"usage: {program_name()} cloud COMMAND ...\n\n{family_overview('cloud')}",
    ),
}


def _say(line: str, code: int) -> int:
    complain(line)
    return code


def _is_user_error(error: Exception) -> bool:
    from marless.user_errors import is_user_error

    return is_user_error(error) or of_the_system(error)


def _of_aws(error: Exception) -> str:
    if "botocore.exceptions" not in sys.modules:
        return ""
    from botocore.exceptions import BotoCoreError, ClientError

    from marless.infra.aws.error_messages import explain

    return explain(error) if isinstance(error, (BotoCoreError, ClientError)) else ""


def _log(options: Namespace) -> str:
    folder = options.folder if options.folder and options.folder.is_dir() else None
    path = folder / "error.log" if folder else Path(tempfile.gettempdir())
    try:
        if not folder:
            # An unpredictable name, because other users may write to this folder too.
            descriptor, name = tempfile.mkstemp(prefix="marless-error-", suffix=".log")
            os.close(descriptor)
            path = Path(name)
        # It holds messages of environments, which other users must not read.
        path.touch(0o600)
        path.write_text(visible_text(redact(traceback.format_exc())), encoding="utf-8")
    except OSError as error:
        return f"no details: {path} cannot be written: {error.strerror}"
    return f"details in {path}"


if __name__ == "__main__":
    sys.exit(main())
