"""The kinds of functions that serve tasks, one row each.

The configuration's table `functions`, the meter, the bill, summaries, packages, the deployment's roles and the tables
of costs are made of these rows. A new kind is a row, the module `marless.functions.<name>.handler` with its `handle`,
and its entry on Lambda, `marless.infra.entry.<name>`; CONTRIBUTING says what invoking and deploying it take.
"""

from dataclasses import dataclass
from typing import Any

import msgspec


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

    @property
    def module(self) -> str:
        """What serves its tasks."""
        # Packages hold the modules that whole strings name, and not this one.
        return ".".join(("marless", "functions", self.name, "handler"))

    @property
    def entry(self) -> str:
        """The module of its handler on Lambda."""
        return ".".join(("marless", "infra", "entry", self.name))


FUNCTIONS = (
    FunctionSpec("actor", "sampling", placed=True),
    FunctionSpec("learner", "learning", placed=True, may_import=FunctionSpec.may_import | {"onnx", "torch"}),
    FunctionSpec("evaluator", "evaluation"),
    # Does the work of all of these for agents that speak: what it needs is too large for a function on AWS.
    FunctionSpec("language", "language agents", deployed=False),
)
NAMES = tuple(spec.name for spec in FUNCTIONS)
PLACED = tuple(spec.name for spec in FUNCTIONS if spec.placed)
COORDINATOR = "coordinator"
"""What drives a run as a function: it serves no tasks, is deployed and billed."""
BILLED = (*NAMES, COORDINATOR)
DEPLOYED = (*(spec.name for spec in FUNCTIONS if spec.deployed), COORDINATOR)


def by_function(base: type[msgspec.Struct], field: type, default: Any, names: tuple[str, ...] = NAMES) -> Any:
    """A class below `base` with a field of type `field` for each function, in the order of the table."""
    fields = [(name, field, default) for name in names]
    return msgspec.defstruct(f"{base.__name__}ByFunction", fields, bases=(base,), kw_only=True)
