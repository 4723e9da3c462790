"""The emulated conditions of IAM policies. Pure.

Source: IAM user guide, "IAM JSON policy elements: Condition operators", "Single-valued vs. multivalued context keys",
"Set operators for multivalued context keys" and "IAM policy elements: Variables and tags".
"""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

Context = Mapping[str, Sequence[str]]
"""What is known of a request: condition keys, in lower case, to their values."""

# The context keys that requests can have here. Any other key would always seem absent, and some operators match an
# absent key.
_KNOWN = frozenset(
    {
        "aws:principalaccount",
        "aws:principalarn",
        "aws:principaltype",
        "aws:requestedregion",
        "aws:securetransport",
        "aws:userid",
        "dynamodb:attributes",
        "dynamodb:leadingkeys",
        "dynamodb:returnvalues",
        "iam:passedtoservice",
        "iam:permissionsboundary",
        "lambda:sourcefunctionarn",
        "s3:delimiter",
        "s3:if-match",
        "s3:if-none-match",
        "s3:max-keys",
        "s3:objectcreationoperation",
        "s3:prefix",
        "s3:requestobjecttagkeys",
        "s3:x-amz-acl",
        "s3:x-amz-copy-source",
        "s3:x-amz-server-side-encryption",
        "s3:x-amz-storage-class",
    }
)
_FAMILIES = ("aws:principaltag/", "s3:requestobjecttag/")

Test = Callable[[str, str, Context], bool]
"""Whether the policy's value (first) fits the request's."""

_TOKEN = re.compile(r"\$\{([^}]*)\}|(.)", re.DOTALL)
_LITERAL = ("*", "?", "$")
# Wildcards do not match the first five colons of an ARN.
_ARN_COLONS = 5


def like(text: str, value: str, context: Mapping[str, Sequence[str]]) -> bool:
    """Return whether `value` matches `text`: ``*`` is any characters, ``?`` one, ``${key}`` the key's value in
    `context`.

    Wildcards in a variable's value are literal. A text with an undefined variable matches nothing.
    """
    values = _variables(text, context)
    return values is not None and _pattern(text, values, False, False).fullmatch(value) is not None


def arn_like(text: str, value: str, context: Mapping[str, Sequence[str]]) -> bool:
    """As `like`, for ARNs, which are compared part by part. ``*`` alone matches every ARN."""
    if text == "*":
        return True
    values = _variables(text, context)
    return values is not None and _pattern(text, values, True, False).fullmatch(value) is not None


def action_like(text: str, action: str) -> bool:
    """As `like`, for actions: case-insensitive and without variables. A text with ``$`` matches no action."""
    return "$" not in text and _pattern(text, (), False, True).fullmatch(action) is not None


def plain(text: str, context: Mapping[str, Sequence[str]]) -> str | None:
    """`text` with its variables replaced and without wildcards. None if a variable is undefined."""
    if "${" not in text:
        return text
    values = _variables(text, context)
    if values is None:
        return None
    replacements = iter(values)
    return _TOKEN.sub(lambda token: next(replacements) if token[2] is None else token[0], text)


def _variables(text: str, context: Mapping[str, Sequence[str]]) -> tuple[str, ...] | None:
    """The values of the variables in `text`, in order. None if one is undefined."""
    if "${" not in text:
        return ()
    values = [_variable(token[1], context) for token in _TOKEN.finditer(text) if token[2] is None]
    return None if None in values else tuple(value for value in values if value is not None)


def _variable(name: str, context: Mapping[str, Sequence[str]]) -> str | None:
    if name in _LITERAL:
        return name
    key, comma, default = (part.strip() for part in name.partition(","))
    values = context.get(key.lower(), ())
    # A variable cannot use a key with several values.
    return values[0] if len(values) == 1 else default.strip("'") if comma else None


@lru_cache(maxsize=4096)
def _pattern(text: str, values: tuple[str, ...], arn: bool, any_case: bool) -> "re.Pattern[str]":
    replacements, colons, parts = iter(values), 0, []
    for token in _TOKEN.finditer(text):
        within = arn and colons < _ARN_COLONS
        if token[2] is None:
            parts.append(re.escape(next(replacements)))
        elif token[2] in "*?":
            parts.append(("[^:]" if within else ".") + ("*" if token[2] == "*" else ""))
        else:
            colons += token[2] == ":"
            parts.append(re.escape(token[2]))
    return re.compile("".join(parts), re.DOTALL | (re.IGNORECASE if any_case else 0))


class NotEmulated(Exception):
    """A policy uses a feature that is not emulated. The message names it. The request is then denied."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One operator on one key. With `negate` it holds if `test` fails. `test` None is the operator Null.

    `every` is the set operator: True for ForAllValues, False for ForAnyValue, else None.
    """

    key: str
    values: tuple[str, ...]
    test: Test | None
    negate: bool = False
    every: bool | None = None
    if_exists: bool = False

    def holds(self, context: Context) -> bool:
        """Return whether the condition holds for the request's `context`. Raises `NotEmulated`."""
        request_values = context.get(self.key)
        if self.test is None:
            return (not request_values) == (self.values[0].lower() == "true")
        if not request_values:
            return self._without()
        if self.every is None and len(request_values) > 1:
            raise NotEmulated(f"{self.key} has several values, and the condition does not say which must hold")
        results = [self._fits(value, context) for value in request_values]
        return any(results) if self.every is False else all(results)

    def _without(self) -> bool:
        """Return whether the condition holds for an absent key: ForAllValues does, ForAnyValue only with IfExists."""
        if self.every is not None:
            return self.every or self.if_exists
        return self.negate or self.if_exists

    def _fits(self, request_value: str, context: Context) -> bool:
        assert self.test is not None
        if self.negate and any(plain(value, context) is None for value in self.values):
            raise NotEmulated(f"a variable in the condition on {self.key} stands for nothing")
        return any(self.test(value, request_value, context) for value in self.values) != self.negate


def conditions(block: Mapping[str, Mapping[str, Any]]) -> tuple[Condition, ...]:
    """The conditions of a statement's Condition block, which must all hold. Raises `NotEmulated`."""
    return tuple(
        _condition(name, key, policy_values) for name, keys in block.items() for key, policy_values in keys.items()
    )


def _condition(name: str, key: str, policy_values: Any) -> Condition:
    lower, key = name.lower(), key.lower()
    if key not in _KNOWN and not key.startswith(_FAMILIES):
        raise NotEmulated(f"the condition key {key} is not emulated")
    quantifier, _, rest = lower.rpartition(":")
    if_exists = rest.endswith("ifexists")
    test, negate = _OPERATORS.get(rest.removesuffix("ifexists"), (None, False))
    values = tuple(_text(value) for value in (policy_values if isinstance(policy_values, list) else [policy_values]))
    if not values or (test is None and rest != "null") or quantifier not in _QUANTIFIERS:
        raise NotEmulated(f"the condition operator {name} is not emulated")
    return Condition(key, values, test, negate, _QUANTIFIERS[quantifier], if_exists)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _equal(policy_value: str, request_value: str, context: Context) -> bool:
    return plain(policy_value, context) == request_value


def _equal_in_any_case(policy_value: str, request_value: str, context: Context) -> bool:
    text = plain(policy_value, context)
    return text is not None and text.lower() == request_value.lower()


def _number(compare: Callable[[float, float], bool]) -> Test:
    def test(policy_value: str, request_value: str, context: Context) -> bool:
        try:
            return compare(float(request_value), float(plain(policy_value, context) or ""))
        except ValueError:
            return False

    return test


_QUANTIFIERS = {"": None, "forallvalues": True, "foranyvalue": False}
_OPERATORS: Mapping[str, tuple[Test, bool]] = {
    "stringequals": (_equal, False),
    "stringnotequals": (_equal, True),
    "stringequalsignorecase": (_equal_in_any_case, False),
    "stringnotequalsignorecase": (_equal_in_any_case, True),
    "stringlike": (like, False),
    "stringnotlike": (like, True),
    "arnequals": (arn_like, False),
    "arnlike": (arn_like, False),
    "arnnotequals": (arn_like, True),
    "arnnotlike": (arn_like, True),
    "bool": (_equal_in_any_case, False),
    "numericequals": (_number(operator.eq), False),
    "numericnotequals": (_number(operator.eq), True),
    "numericlessthan": (_number(operator.lt), False),
    "numericlessthanequals": (_number(operator.le), False),
    "numericgreaterthan": (_number(operator.gt), False),
    "numericgreaterthanequals": (_number(operator.ge), False),
}
