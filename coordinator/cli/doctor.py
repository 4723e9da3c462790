"""marless doctor: what this machine has, what is missing, and how to get it."""

import os
import platform
import shutil
from argparse import ArgumentParser, Namespace
from importlib.util import find_spec
from pathlib import Path

from coordinator.cli.text import table
from infra.wiring import cores

# Extras of the package and a module of everything each brings.
_EXTRAS = {
    "learner": ("stages that need automatic differentiation", ("torch",)),
    "tasks": ("PettingZoo environments", ("pettingzoo", "mpe2")),
    "report": ("curve.png", ("matplotlib",)),
    "aws": ("functions on AWS", ("aws_lambda_powertools",)),
    "emulated": ("AWS, emulated on this machine", ("moto", "awslambdaric", "samtranslator")),
    "smac": ("StarCraft tasks; see pyproject.toml", ("smacv2",)),
}
_GIB = 1 << 30


def arguments(parser: ArgumentParser) -> None:
    """None."""


def run(options: Namespace) -> int:
    print(table(("this machine", ""), _machine()))
    print()
    print(table(("extra", "", "for"), [_extra(name) for name in _EXTRAS]))
    print()
    print(table(("back-end", "", ""), [("local", "ready", "worker processes on this machine")]))
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
    purpose, modules = _EXTRAS[name]
    missing = [module for module in modules if find_spec(module) is None]
    hint = f"missing: pip install 'marless[{name}]'" if missing else "installed"
    return name, hint, purpose
