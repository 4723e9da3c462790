"""marless doctor: checks which programs and packages are installed, and how to get missing ones."""

import os
import platform
import shutil
import textwrap
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from marless import extras
from marless.backends import registry
from marless.backends.badge import badge
from marless.backends.base import Readiness
from marless.cli import arguments as common
from marless.infra.local.available_cores import cores
from marless.output import say, say_json, say_text
from marless.reports.text import table

EXAMPLES = """examples:
  marless doctor                checks this machine
  marless doctor --json         prints the checks as JSON
  eval "$(marless doctor --completion bash)"    in ~/.bashrc: the tab key completes commands
  eval "$(marless doctor --completion zsh)"     in ~/.zshrc, below: autoload -U compinit && compinit"""

_GIB = 1 << 30
# Of a last column, in a terminal of 80 columns.
_TEXT_WIDTH = 55


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "--completion", nargs="?", const="bash", choices=("bash", "zsh"), help="print only a script for the tab key"
    )
    common.json(parser)


def run(options: Namespace) -> int:
    """Print installed and missing parts. Return 0."""
    if options.completion:
        extras.require("completion", "completion")
        from argcomplete.shell_integration import shellcode

        say_text(shellcode(["marless"], shell=options.completion))
        return 0
    backends = {name: registry.lookup(name).readiness() for name in registry.BACKENDS}
    if options.json:
        has_extra = {name: extras.is_installed(name) for name in extras.EXTRAS}
        say_json({"machine": dict(_machine()), "extras": has_extra, "backends": backends})
        return 0
    machine = [(name, line) for row in _machine() for name, _, line in _wrapped((row[0], "", row[1]))]
    say_text(table(("this machine", ""), machine))
    say("")
    say_text(
        table(
            ("extra", "for", ""),
            [
                (name, what, "installed" if extras.is_installed(name) else "missing")
                for name, (what, _) in extras.EXTRAS.items()
            ],
        )
    )
    say("", *_commands([name for name in extras.EXTRAS if not extras.is_installed(name)]))
    rows = [row for name, readiness in backends.items() for row in _rows(name, readiness)]
    say("")
    say_text(table(("back-end", "", ""), [line for row in rows for line in _wrapped(row)]))
    return 0


def _machine() -> list[tuple[str, str]]:
    disk = shutil.disk_usage(Path.cwd())
    compared = badge()  # as drivers and workers of other machines compare them
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return [
        ("python", f"{platform.python_version()}, {platform.platform(terse=True)}"),
        ("cores", f"{cores()} of {os.cpu_count()} (the default of --workers)"),
        ("memory", f"{memory / _GIB:.1f} GiB"),
        ("disk free", f"{disk.free / _GIB:.1f} GiB in {Path.cwd()}"),
        ("program", compared.program),
        ("processor", compared.processor),
    ]


def _commands(missing: Sequence[str]) -> Iterator[str]:
    if like_others := [name for name in missing if not extras.takes_more(name)]:
        yield f"to add one, such as {like_others[0]}: {extras.install(like_others[0])}"
    yield from (f"to add {name}: {extras.install(name)}" for name in missing if extras.takes_more(name))


def _rows(name: str, readiness: Readiness) -> list[tuple[str, str, str]]:
    parts = [("", f"  {part.name}", part.text if part.ready else f"missing: {part.text}") for part in readiness.parts]
    return [(name, "ready" if readiness.ready else "not ready", readiness.what), *parts]


def _wrapped(row: tuple[str, str, str]) -> Iterator[tuple[str, str, str]]:
    name, state, text = row
    for line in textwrap.wrap(text, _TEXT_WIDTH, break_long_words=False, break_on_hyphens=False):
        yield name, state, line
        name = state = ""
