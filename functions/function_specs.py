"""The kinds of functions that serve tasks, one row each.

The configuration's table `functions`, the meter, the bill, summaries, packages, the deployment's roles and the tables
of costs are made of these rows. A new kind is a row, the module `marless.functions.<name>.handler` with its `handle`,
and its entry on Lambda, `marless.infra.entry.<name>`. CONTRIBUTING explains how it is invoked and deployed.

Another package offers a kind by an entry point of the group `marless.functions` with a `FunctionSpec` as its value.
Runs use it if their algorithm names it (`AlgorithmSpec.function`).
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import msgspec

from marless.functions.errors import BadRequest
from marless.functions.plug_in_registry import Registry


def function_at(location: str) -> Any:
    """Return the function at a ``module:function``."""
    module, _, name = location.partition(":")
    return getattr(import_module(module), name)


@dataclass(frozen=True)
class FunctionSpec:
    """A kind of function."""

    name: str
    work: str
    """What it does, as tables and pictures of costs call it."""
    placed: bool = False
    """It works in rounds as the placement says; `learner` does the work of all of these where one function does all."""
    deployed: bool = True
    """It can be a function on AWS."""
    may_import: frozenset[str] = frozenset({"gymnasium", "onnxruntime", "threadpoolctl"})
    """Modules that no package has, where tasks of a user, other networks and workers of this machine bring them."""
    handler: str = ""
    """The module with `handle`, for a kind of another package."""
    checks: str = ""
    """The ``module:function`` that yields the faults of a run's configuration, each as ``key: fault``."""
    tools: str = ""
    """The package with functions for runs of this kind: `inputs.store` stores their inputs, commands call others."""

    def tool(self, name: str) -> Any:
        """Return a function of the `tools`, by ``module:function``."""
        return function_at(f"{self.tools}.{name}")

    @property
    def module(self) -> str:
        """The module that serves its tasks."""
        # Built here, because packages hold modules that whole strings name.
        return self.handler or ".".join(("marless", "functions", self.name, "handler"))

    @property
    def entry(self) -> str:
        """The module of its handler on Lambda."""
        return ".".join(("marless", "infra", "entry", "other_kind" if self.handler else self.name))


_OURS = (
    FunctionSpec("actor", "sampling", placed=True),
    FunctionSpec("learner", "learning", placed=True, may_import=FunctionSpec.may_import | {"onnx", "torch"}),
    FunctionSpec("evaluator", "evaluation"),
    # Does the work of all these functions for agents that speak. It is too large for a function on AWS.
    FunctionSpec(
        "language",
        "language agents",
        deployed=False,
        handler="marless_language.handler",
        checks="marless_language.runs.checks:faults",
        tools="marless_language.runs",
    ),
)
COORDINATOR = "coordinator"
"""The function that drives a run. It serves no tasks, and is deployed and billed."""
# Names of other parts of bills and meters.
_RESERVED = (COORDINATOR, "actions", "logs", "requests", "storage", "total", "transfer")


def _problem(value: object) -> str:
    if not isinstance(value, FunctionSpec):
        return "is no FunctionSpec"
    is_free = value.name.isalpha() and value.name.islower() and value.name not in _RESERVED
    return (
        "" if is_free and value.handler else f"has no handler, or a name that is not lower-case letters: {value.name}"
    )


KINDS: Registry[FunctionSpec] = Registry(
    "marless.functions", {spec.name: spec for spec in _OURS}, lambda name: f"kind of function {name!r}", _problem
)


def _usable() -> Iterator[FunctionSpec]:
    """Yield the kinds that can be loaded. A run that needs another kind is refused when its configuration is read."""
    for name in KINDS:
        with suppress(BadRequest):
            yield KINDS[name]


FUNCTIONS = tuple(_usable())
NAMES = tuple(spec.name for spec in FUNCTIONS)
PLACED = tuple(spec.name for spec in FUNCTIONS if spec.placed)
BILLED = (*NAMES, COORDINATOR)
DEPLOYED = (*(spec.name for spec in FUNCTIONS if spec.deployed), COORDINATOR)


def by_function(base: type[msgspec.Struct], field: type, default: Any, names: tuple[str, ...] = NAMES) -> Any:
    """A class below `base` with a field of type `field` for each function, in the order of the table."""
    fields = [(name, field, default) for name in names]
    return msgspec.defstruct(f"{base.__name__}ByFunction", fields, bases=(base,), kw_only=True)


def share_of(memory_mb: int) -> int:
    """Bytes that a deployed function with so much memory may keep from task to task.

    Lambda kills a function that outgrows its memory, which was chosen for the tasks themselves.
    """
    return (memory_mb << 20) // 16
