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

from importlib import import_module
from typing import TYPE_CHECKING, Any

from marless.own_packages import import_own_packages

import_own_packages()

from marless.run import Run, open_run  # noqa: E402 (it imports them)

if TYPE_CHECKING:
    from coordinator.config.schema import ConfigError
    from coordinator.errors import UserError
    from marless.costs import estimate, simulate
    from marless.driving import RunFailed, TrainingInterrupted, resume, train
    from marless.experiments import ablate, compare, study
    from marless.reports.policy import load_policy
    from marless.results import crossplay, evaluate, export, replay, report

__all__ = [
    "ConfigError",
    "Run",
    "RunFailed",
    "TrainingInterrupted",
    "UserError",
    "__version__",
    "ablate",
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
    "coordinator.config.schema": ("ConfigError",),
    "coordinator.errors": ("UserError",),
    "marless.costs": ("estimate", "simulate"),
    "marless.driving": ("RunFailed", "TrainingInterrupted", "resume", "train"),
    "marless.experiments": ("ablate", "compare", "study"),
    "marless.reports.policy": ("load_policy",),
    "marless.results": ("crossplay", "evaluate", "export", "replay", "report"),
}


# Modules for plug-ins and notebooks.
_PUBLIC = ("algorithms", "backends", "environments", "loggers", "resources", "rules")


def __getattr__(name: str) -> Any:
    """What is loaded when it is first asked for, as notebooks and plug-ins seldom need all."""
    if name == "__version__":
        return import_module("importlib.metadata").version("marless")
    if name in _PUBLIC:
        return import_module(f"marless.{name}")
    module = next((module for module, names in _MODULES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_PUBLIC])
