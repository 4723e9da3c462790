"""MARLess: multi-agent reinforcement learning on serverless functions.

Everything a notebook or a plug-in may import is here and in `marless.algorithms`, `marless.environments`,
`marless.resources`, `marless.rules`, `marless.loggers` and `marless.backends`; all other modules may change without
notice.

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

if TYPE_CHECKING:
    from marless.coordinator.config.schema import ConfigError
    from marless.coordinator.errors import UserError
    from marless.costs import estimate, simulate
    from marless.driving import RunFailed, TrainingInterrupted, resume, train
    from marless.experiments import ablate, benchmark, compare, study
    from marless.results import crossplay, evaluate, export, replay, report
    from marless.run import Run, load_policy, open_run

__all__ = [
    "ConfigError",
    "Run",
    "RunFailed",
    "TrainingInterrupted",
    "UserError",
    "__version__",
    "ablate",
    "benchmark",
    "compare",
    "crossplay",
    "estimate",
    "evaluate",
    "export",
    "load_policy",
    "open_run",
    "replay",
    "report",
    "resume",
    "simulate",
    "study",
    "train",
]

# Where what is not loaded with the package is defined.
_MODULES = {
    "marless.coordinator.config.schema": ("ConfigError",),
    "marless.coordinator.errors": ("UserError",),
    "marless.costs": ("estimate", "simulate"),
    "marless.driving": ("RunFailed", "TrainingInterrupted", "resume", "train"),
    "marless.experiments": ("ablate", "benchmark", "compare", "study"),
    "marless.results": ("crossplay", "evaluate", "export", "replay", "report"),
    "marless.run": ("Run", "load_policy", "open_run"),
}


# Modules for plug-ins and notebooks.
_PUBLIC = ("algorithms", "backends", "environments", "language", "loggers", "resources", "rules")


def __getattr__(name: str) -> Any:
    """What is loaded when it is first asked for: functions need nothing of it, notebooks and plug-ins seldom all."""
    if name == "__version__":
        return import_module("importlib.metadata").version("marless")
    if name in _PUBLIC:
        return import_module(f"marless.{name}")
    module = next((module for module, names in _MODULES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # A file of the user beside a script, such as a random.py, stands in for no module of Python's own library.
    sys.path.insert(0, library := os.__file__.rpartition(os.sep)[0])
    try:
        return getattr(import_module(module), name)
    finally:
        sys.path.remove(library)


def __dir__() -> list[str]:
    return sorted([*__all__, *_PUBLIC])
