"""marless doctor: checks what is installed, what is missing, and how to get it."""

import os
import platform
import shutil
from argparse import ArgumentParser, Namespace
from pathlib import Path

from infra.local.own_process import cores
from marless import extras
from marless.backends import registry
from marless.backends.base import Readiness
from marless.cli import arguments as common
from marless.output import say, say_json, say_text
from marless.reports.text import table

_GIB = 1 << 30


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    common.json(parser)


def run(options: Namespace) -> int:
    """Prints what is installed and what is missing; always 0."""
    if options.json:
        has_extra = {name: extras.is_installed(name) for name in extras.EXTRAS}
        report = {"machine": dict(_machine()), "extras": has_extra, "backends": _backends()}
        say_json(report)
        return 0
    say_text(table(("this machine", ""), _machine()))
    say("")
    say_text(table(("extra", "for", ""), [_extra(name) for name in extras.EXTRAS]))
    say("")
    rows = [row for name, readiness in _backends().items() for row in _rows(name, readiness)]
    say_text(table(("back-end", "", ""), rows))
    return 0


def _machine() -> list[tuple[str, str]]:
    disk = shutil.disk_usage(Path.cwd())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return [
        ("python", f"{platform.python_version()}, {platform.platform(terse=True)}"),
        ("cores", f"{cores()} of {os.cpu_count()} (the default of --workers)"),
        ("memory", f"{memory / _GIB:.1f} GiB"),
        ("disk free", f"{disk.free / _GIB:.1f} GiB in {Path.cwd()}"),
    ]


def _backends() -> dict[str, Readiness]:
    return {name: registry.lookup(name).readiness() for name in registry.names()}


def _extra(name: str) -> tuple[str, str, str]:
    hint = "installed" if extras.is_installed(name) else f"missing: {extras.install(name)}"
    return name, extras.EXTRAS[name][0], hint


def _rows(name: str, readiness: Readiness) -> list[tuple[str, str, str]]:
    """The back-end, and below it what it requires."""
    parts = [("", f"  {part.name}", part.text if part.ready else _missing(part.text)) for part in readiness.parts]
    return [(name, "ready" if readiness.ready else "not ready", readiness.what), *parts]


def _missing(text: str) -> str:
    return f"missing: {text}"
