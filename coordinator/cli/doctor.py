"""marless doctor: what this machine has, what is missing, and how to get it."""

import os
import platform
import shutil
from argparse import ArgumentParser, Namespace
from importlib.util import find_spec
from pathlib import Path

import msgspec

from coordinator.cli import options as common
from coordinator.cli.text import table
from infra.wiring import BACKENDS, BackendName, cores

# Extras of the package and a module of everything each brings.
_EXTRAS = {
    "learner": ("stages that need automatic differentiation", ("torch",)),
    "tasks": ("PettingZoo environments", ("pettingzoo", "mpe2")),
    "report": ("curve.png", ("matplotlib",)),
    "aws": ("functions on AWS", ("aws_lambda_powertools",)),
    "emulated": ("AWS, emulated on this machine", ("moto", "awslambdaric", "samtranslator")),
    "smac": ("StarCraft tasks; see pyproject.toml", ("smacv2",)),
}
_PLACES: dict[BackendName, str] = {"local": "worker processes on this machine"}
_GIB = 1 << 30


def arguments(parser: ArgumentParser) -> None:
    common.json(parser)


def run(options: Namespace) -> int:
    """Prints what is here and what is missing; always 0."""
    if options.json:
        extras = {name: not _missing(name) for name in _EXTRAS}
        found = {"machine": dict(_machine()), "extras": extras, "backends": list(BACKENDS)}
        print(msgspec.json.encode(found).decode())
        return 0
    print(table(("this machine", ""), _machine()))
    print()
    print(table(("extra", "", "for"), [_extra(name) for name in _EXTRAS]))
    print()
    print(table(("back-end", "", ""), [(name, "ready", _PLACES[name]) for name in BACKENDS]))
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


def _extra(name: str) -> tuple[str, str, str]:
    hint = f"missing: .venv/bin/pip install -e '.[{name}]'" if _missing(name) else "installed"
    return name, hint, _EXTRAS[name][0]


def _missing(name: str) -> bool:
    return any(find_spec(module) is None for module in _EXTRAS[name][1])
