"""MARLess: multi-agent reinforcement learning on serverless functions.

You may import everything here and in `marless.algorithms`, `marless.environments`, `marless.language`,
`marless.resources`, `marless.results`, `marless.rules`, `marless.settings`, `marless.loggers` and `marless.backends`.
All other modules may change without notice.

Examples:
    >>> import marless
    >>> run = marless.train(seed=7, stop={"rounds": 50}, quiet=True)
    >>> run.summary.final_return.mean
    -58.9
    >>> actions = run.policy().act(observations)
"""

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = [
    "ConfigError",
    "Run",
    "RunFailed",
    "TrainingInterrupted",
    "UserError",
    "__version__",
    "ablate",
    "algorithm",
    "benchmark",
    "compare",
    "crossplay",
    "environment",
    "estimate",
    "evaluate",
    "export",
    "judge",
    "load_policy",
    "open_run",
    "plan",
    "replay",
    "report",
    "resume",
    "rule",
    "simulate",
    "study",
    "train",
]

if TYPE_CHECKING:
    from marless import settings
    from marless.coordinator.config.schema import ConfigError
    from marless.coordinator.errors import UserError
    from marless.estimates import estimate, plan, simulate
    from marless.experiments import ablate, benchmark, compare, study
    from marless.reports.user_code.decorators import algorithm, environment, judge, rule
    from marless.results import crossplay, evaluate, export, replay, report
    from marless.run import Run, load_policy, open_run
    from marless.settings import *  # noqa: F403
    from marless.training import RunFailed, TrainingInterrupted, resume, train

    __all__ += settings.__all__  # for pyright
    __version__: str

# The modules of names that are loaded when they are used.
_MODULES = {
    "marless.coordinator.config.schema": ("ConfigError",),
    "marless.coordinator.errors": ("UserError",),
    "marless.estimates": ("estimate", "plan", "simulate"),
    "marless.reports.user_code.decorators": ("algorithm", "environment", "judge", "rule"),
    "marless.training": ("RunFailed", "TrainingInterrupted", "resume", "train"),
    "marless.experiments": ("ablate", "benchmark", "compare", "study"),
    "marless.results": ("crossplay", "evaluate", "export", "replay", "report"),
    "marless.run": ("Run", "load_policy", "open_run"),
}


# Modules for plug-ins and notebooks.
_PUBLIC = ("algorithms", "backends", "environments", "language", "loggers", "resources", "results", "rules", "settings")


def __getattr__(name: str) -> Any:
    """Load a name when it is first used, since functions need none, and notebooks few."""
    if name == "__version__":
        return import_module("importlib.metadata").version("marless")
    if name in _PUBLIC:
        return import_module(f"marless.{name}")
    module = next((module for module, names in _MODULES.items() if name in names), None)
    if module is None and name in _settings(name):
        module = "marless.settings"
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # A user's file, such as random.py next to a script, must not replace a module of Python's library.
    sys.path.insert(0, library := os.__file__.rpartition(os.sep)[0])
    try:
        return getattr(import_module(module), name)
    finally:
        sys.path.remove(library)


def _settings(name: str) -> list[str]:
    return list(import_module("marless.settings").__dir__()) if name[:1].isupper() else []


def __dir__() -> list[str]:
    return sorted([*__all__, *_PUBLIC, *_settings("Config")])
