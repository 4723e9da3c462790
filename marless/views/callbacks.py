"""Functions of the user that are called with the row of each round, where the run is driven."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from marless.coordinator.core.state import Plan, RoundLine
from marless.functions.encoding import to_json_file
from marless.runs.folder import CALLBACKS
from marless.runs.view import View

Callback = Callable[[dict[str, Any]], object]
"""It takes the row of a round, as `Run.metrics` returns it, and stops the run if it returns True."""


def with_callbacks(view: View, callbacks: Sequence[Callback], stop: Callable[[], None]) -> View:
    """Return the view, which now also calls the callbacks, calls `stop` if one of them returns True, and notes their
    names in the run's folder."""
    show_start, show_round = view.start, view.round

    def start(name: str, folder: str) -> None:
        """Note the names."""
        show_start(name, folder)
        (Path(folder) / CALLBACKS).write_bytes(to_json_file(list(map(_name, callbacks))))

    def tell(plan: Plan, line: RoundLine) -> None:
        """Call the callbacks."""
        show_round(plan, line)
        if stopping := [_name(call) for call in callbacks if call(msgspec.to_builtins(line)) is True]:
            view.remark(f"{' and '.join(stopping)} stopped the run after round {line.round}")
            stop()

    view.start, view.round = start, tell  # type: ignore[method-assign]
    return view


def _name(callback: Callback) -> str:
    return getattr(callback, "__qualname__", type(callback).__qualname__)
