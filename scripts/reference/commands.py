"""docs/reference/commands.md: every command with its arguments."""

import sys
import tomllib
from argparse import SUPPRESS, Action, ArgumentParser
from importlib import import_module
from types import ModuleType

from marless.cli.app import module_of
from marless.cli.command_names import COMMANDS, GROUPS
from scripts.reference import markdown

_ABOUT = """\
`marless COMMAND --help` prints the same. Exit code 2 means a mistake in your command, with one line that explains it.
Exit code 1 means an incomplete result, and 0 means success. `RUN` is a run's name under `runs/`, the path of its
folder, or `latest`."""
# Defaults that differ from machine to machine.
_OF_THE_MACHINE = {"workers": "cores"}


def page() -> str:
    """The whole page."""
    group_of = {name: title for title, group in GROUPS.items() for name in group}
    overview = [
        (f"[`{name}`](#{name.replace(' ', '-')})", does, group_of.get(name.split()[0], "rarely needed"))
        for name, does in COMMANDS.items()
    ]
    parts = [_ABOUT, markdown.table(("command", "does", "group"), overview)]
    for name in COMMANDS:
        parts += _command(name)
    return markdown.page("Command line", "`marless/cli`", parts)


def _command(name: str) -> list[str]:
    command = _module(name)
    parser = ArgumentParser(prog=f"marless {name}", add_help=False)
    command.arguments(parser)
    rows = [_row(action) for action in parser._actions if action.help != SUPPRESS]
    parts = [f"## {name}", markdown.paragraph(command)]
    parts += [markdown.table(("argument", "meaning"), rows)] if rows else []
    return [*parts, f"```text\n{command.EXAMPLES.strip()}\n```"]


def _module(name: str) -> ModuleType:
    """Return the module of a command. Packages of this repository need not be installed, so the page is the same."""
    for project in sorted((markdown.DATA.parents[1] / "packages").glob("marless-*/pyproject.toml")):
        offers = tomllib.loads(project.read_text(encoding="utf-8"))["project"].get("entry-points", {})
        if module := offers.get("marless.commands", {}).get(name):
            sys.path.append(str(project.parent))
            return import_module(module)
    return module_of(name)


def _row(action: Action) -> tuple[str, str]:
    metavar = action.metavar or (f"{{{','.join(map(str, action.choices))}}}" if action.choices else action.dest.upper())
    takes_value = action.nargs != 0
    names = [f"{option} {metavar}" if takes_value else option for option in action.option_strings] or [str(metavar)]
    default = _OF_THE_MACHINE.get(action.dest, action.default)
    text = (action.help or "").replace("%(default)s here", "all of them").replace("%(default)s", str(default))
    return ", ".join(map(markdown.code, names)).replace("|", "\\|"), markdown.escaped(text)
