"""What several attempts at one action come to."""

from collections.abc import Sequence

from msgspec.structs import replace

from functions.resources.port import Outcome


def after(attempts: Sequence[Outcome]) -> Outcome:
    """How an action ended after these attempts, one or more, of which all but the last have failed."""
    last, run_ms = attempts[-1], sum(attempt.run_ms for attempt in attempts)
    tried = f" ({len(attempts)} attempts)" if last.error and len(attempts) > 1 else ""
    return replace(last, run_ms=run_ms, error=f"{last.error}{tried}")
