"""Texts of IAM policies with wildcards and variables. Pure.

Rules: IAM user guide, "IAM JSON policy elements: Resource" and "IAM policy elements: Variables and tags".
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

_TOKEN = re.compile(r"\$\{([^}]*)\}|(.)", re.DOTALL)
_LITERAL = ("*", "?", "$")
# Wildcards do not reach over the colons of an ARN, but for what comes after the fifth.
_ARN_COLONS = 5


def like(text: str, value: str, context: Mapping[str, Sequence[str]]) -> bool:
    """Whether `value` is what `text` says: ``*`` is any characters, ``?`` one, ``${key}`` what `context` has for it.

    What stands for a variable counts letter by letter; where it stands for nothing, nothing fits.
    """
    values = _variables(text, context)
    return values is not None and _pattern(text, values, False, False).fullmatch(value) is not None


def arn_like(text: str, value: str, context: Mapping[str, Sequence[str]]) -> bool:
    """As `like`, for ARNs: their parts are compared one by one. ``*`` alone is every ARN."""
    if text == "*":
        return True
    values = _variables(text, context)
    return values is not None and _pattern(text, values, True, False).fullmatch(value) is not None


def action_like(text: str, action: str) -> bool:
    """As `like`, for actions: upper and lower case are the same, and there are no variables; no action has a ``$``."""
    return "$" not in text and _pattern(text, (), False, True).fullmatch(action) is not None


def plain(text: str, context: Mapping[str, Sequence[str]]) -> str | None:
    """`text` with its variables replaced, and no wildcards; None where one of them stands for nothing."""
    if "${" not in text:
        return text
    values = _variables(text, context)
    if values is None:
        return None
    left = iter(values)
    return _TOKEN.sub(lambda token: next(left) if token[2] is None else token[0], text)


def _variables(text: str, context: Mapping[str, Sequence[str]]) -> tuple[str, ...] | None:
    """What the variables in `text` stand for, in order; None where one of them stands for nothing."""
    if "${" not in text:
        return ()
    found = [_variable(token[1], context) for token in _TOKEN.finditer(text) if token[2] is None]
    return None if None in found else tuple(value for value in found if value is not None)


def _variable(name: str, context: Mapping[str, Sequence[str]]) -> str | None:
    if name in _LITERAL:
        return name
    key, comma, default = (part.strip() for part in name.partition(","))
    values = context.get(key.lower(), ())
    # A key with several values is none for a variable.
    return values[0] if len(values) == 1 else default.strip("'") if comma else None


@lru_cache(maxsize=4096)
def _pattern(text: str, values: tuple[str, ...], arn: bool, any_case: bool) -> "re.Pattern[str]":
    left, colons, parts = iter(values), 0, []
    for token in _TOKEN.finditer(text):
        within = arn and colons < _ARN_COLONS
        if token[2] is None:
            parts.append(re.escape(next(left)))
        elif token[2] in "*?":
            parts.append(("[^:]" if within else ".") + ("*" if token[2] == "*" else ""))
        else:
            colons += token[2] == ":"
            parts.append(re.escape(token[2]))
    return re.compile("".join(parts), re.DOTALL | (re.IGNORECASE if any_case else 0))
