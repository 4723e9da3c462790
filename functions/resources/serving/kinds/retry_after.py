"""Read the pause that a service asks for: the header `Retry-After` (RFC 9110, 10.2.3)."""

import re
import time
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime

_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")


def retry_after_s(headers: Message) -> float:
    """Return the seconds that a service asks for, as a number or as a date. It is 0 if it asks for none.

    A date counts from the service's own clock, if it says the time, as clocks differ.
    """
    text = headers.get("Retry-After", "").strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    if (until := _time(text)) is None:
        return 0.0
    now = _time(headers.get("Date", ""))
    return max(0.0, until - (time.time() if now is None else now))


def _time(text: str) -> float | None:
    """Return a date in seconds since 1970, or None for other text. A date without a zone is of UTC."""
    try:
        date: datetime = parsedate_to_datetime(text)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
