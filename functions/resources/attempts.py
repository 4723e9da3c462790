"""What several attempts at one action come to."""

from collections.abc import Sequence

from msgspec.structs import replace

from functions.resources.port import Outcome


def after(attempts: Sequence[Outcome]) -> Outcome:
    """How an action ended after these attempts, one or more, of which all but the last have failed."""
    last = attempts[-1]
    tried = f" ({len(attempts)} attempts)" if last.error and len(attempts) > 1 else ""
    return replace(
        last,
        error=f"{last.error}{tried}",
        run_ms=sum(attempt.run_ms for attempt in attempts),
        attempts=sum(attempt.attempts for attempt in attempts),
        puts=sum(attempt.puts for attempt in attempts),
        gets=sum(attempt.gets for attempt in attempts),
    )
