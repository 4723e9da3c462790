"""The command line with barriers that rounds no longer have, as the controls of this benchmark:
``python -m benchmarks.pipeline.barriers WHAT ARGUMENT ...``.

`partials`: sums over parts of a round wait for all of its trajectories. `evaluation`: learners wait for an evaluation
that is due. Functions, pool and messages are the same as in every run.
"""

import sys
from collections.abc import Callable
from dataclasses import replace

from marless.cli.app import main
from marless.coordinator.core.round_graph import PHASES, Gate
from marless.coordinator.core.state import Plan, State

Gates = Callable[[Plan, State], list[Gate]]


def _behind(gates: list[Gate], kind: str, first: tuple[str, ...]) -> list[Gate]:
    """Return the gates. Gates of a `kind` also wait for all of the kinds `first`."""
    awaited = tuple(gate.name for gate in gates if _kind(gate) in first)
    return [gate._replace(after=(*gate.after, *awaited)) if _kind(gate) == kind else gate for gate in gates]


def _kind(gate: Gate) -> str:
    return gate.name.partition("/")[0]


BARRIERS: dict[str, Callable[[list[Gate]], list[Gate]]] = {
    "partials": lambda gates: _behind(gates, "grad", ("sample",)),
    "evaluation": lambda gates: _behind(gates, "learn", ("evaluate",)),
}


def main_with(barrier: str, arguments: list[str]) -> int:
    """Run a command with this barrier in its rounds."""
    gates, stand = PHASES["round"].gates, BARRIERS[barrier]
    PHASES["round"] = replace(PHASES["round"], gates=lambda plan, state: stand(gates(plan, state)))
    return main(arguments)


if __name__ == "__main__":
    sys.exit(main_with(sys.argv[1], sys.argv[2:]))
