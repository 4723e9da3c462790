"""Evaluates IAM policies for a request. Pure.

Rules: IAM user guide, "Policy evaluation logic", "IAM JSON policy elements reference" and "How IAM roles differ from
resource-based policies". A statement with parts that cannot be read denies the requests that it matches.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from aws_emulator.encoding import from_json
from aws_emulator.iam.conditions import Condition, Context, NotEmulated, action_like, arn_like, conditions

Document = Mapping[str, Any]
# Policies of this version, which is the default, have no variables ("IAM JSON policy elements: Version").
_OLD = "2008-10-17"
Decision = Literal["allow", "deny", "nothing"]


class ServiceAction(NamedTuple):
    """An action on a resource, with the context keys that conditions of policies may test."""

    action: str
    resource: str
    context: Mapping[str, Sequence[str]] = {}


class Verdict(NamedTuple):
    """The result of a policy evaluation, with the reason for the error message."""

    decision: Decision
    why: str = ""


@dataclass(frozen=True, slots=True)
class Statement:
    """A parsed statement. Only resource policies have `principals`. `not_emulated` says which part is not emulated."""

    allows: bool
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: tuple[Condition, ...] = ()
    principals: tuple[str, ...] = ()
    other_actions: bool = False
    other_resources: bool = False
    sid: str = ""
    not_emulated: str = ""

    def names_action(self, action: str) -> bool:
        """Return whether the statement covers the action."""
        return any(action_like(text, action) for text in self.actions) != self.other_actions

    def names_resource(self, resource: str, context: Context) -> bool:
        """Return whether the statement covers the resource."""
        return any(arn_like(text, resource, context) for text in self.resources) != self.other_resources

    def names_caller(self, callers: Sequence[str]) -> bool:
        """Return whether the statement covers a caller with these names. Without `principals` it covers every
        caller."""
        return not self.principals or any(name in self.principals for name in ("*", *callers))


class Policy:
    """A parsed policy document."""

    def __init__(self, statements: Iterable[Statement]) -> None:
        self._statements = tuple(statements)
        self._about: dict[str, tuple[Statement, ...]] = {}

    def about(self, action: str) -> tuple[Statement, ...]:
        """The statements about an action. Cached, because few actions recur often."""
        statements = self._about.get(action)
        if statements is None:
            statements = tuple(statement for statement in self._statements if statement.names_action(action))
            self._about[action] = statements
        return statements


def read(document: Document | str, of_resource: bool = False) -> Policy:
    """Parses a policy document. An unreadable one denies everything."""
    try:
        policy = from_json(document, dict[str, Any]) if isinstance(document, str) else document
        if policy.get("Version", _OLD) == _OLD:
            policy = from_json(json.dumps(policy).replace("${", "${$}{"), dict[str, Any])
        statements = _as_list(policy["Statement"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return Policy([_unreadable({}, "the policy cannot be read")])
    return Policy(_statement(statement, of_resource) for statement in statements)


def judge(
    policies: Iterable[Policy],
    action: ServiceAction,
    context: Context,
    callers: Sequence[str] = (),
    account: Sequence[str] = (),
) -> Verdict:
    """The combined verdict of the policies: an explicit deny overrides any allow.

    `context` holds all context keys of the request, also the keys of `action`. `callers` are the caller's names for
    resource-based policies, and `account` the names of its account: a deny of the account denies all its principals.
    """
    verdict = Verdict("nothing")
    for statement in (statement for policy in policies for statement in policy.about(action.action)):
        names = callers if statement.allows else (*callers, *account)
        if not statement.names_caller(names) or not statement.names_resource(action.resource, context):
            continue
        try:
            if statement.not_emulated:
                raise NotEmulated(statement.not_emulated)
            if not all(condition.holds(context) for condition in statement.conditions):
                continue
        except NotEmulated as error:
            return Verdict("deny", f"because a statement cannot be judged: {_sid_prefix(statement)}{error}")
        if not statement.allows:
            return Verdict("deny", f"with an explicit deny{f' ({statement.sid})' if statement.sid else ''}")
        verdict = Verdict("allow")
    return verdict


def _statement(element: Document, of_resource: bool) -> Statement:
    try:
        other_actions, other_resources = "NotAction" in element, "NotResource" in element
        strange = set(element) - _ELEMENTS - ({"Principal"} if of_resource else set())
        if strange:
            raise NotEmulated(f"the element {', '.join(sorted(strange))} is not emulated")
        return Statement(
            allows={"Allow": True, "Deny": False}[element["Effect"]],
            actions=_texts(element["NotAction" if other_actions else "Action"]),
            resources=_texts(element["NotResource" if other_resources else "Resource"]),
            conditions=_conditions(element),
            principals=_principals(element["Principal"]) if of_resource else (),
            other_actions=other_actions,
            other_resources=other_resources,
            sid=element.get("Sid", ""),
        )
    except NotEmulated as error:
        return _unreadable(element, str(error))
    except (KeyError, TypeError, AttributeError) as error:
        return _unreadable(element, f"it is not a statement ({type(error).__name__} {error})")


_ELEMENTS = {"Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition"}


def _unreadable(element: Document, not_emulated: str) -> Statement:
    """A statement that denies the actions and resources that can be read from `element`, or else everything."""
    sid = str(element.get("Sid", "")) if isinstance(element, Mapping) else ""
    try:
        return Statement(
            False, _texts(element["Action"]), _texts(element["Resource"]), sid=sid, not_emulated=not_emulated
        )
    except (KeyError, TypeError):
        return Statement(False, ("*",), ("*",), sid=sid, not_emulated=not_emulated)


def _conditions(element: Document) -> tuple[Condition, ...]:
    return conditions(element.get("Condition", {}))


def _principals(element: Any) -> tuple[str, ...]:
    """The principals of a resource policy's statement. Services are left out, because they are never callers here."""
    if element == "*":
        return ("*",)
    strange = set(element) - {"AWS", "Service"}
    if strange:
        raise NotEmulated(f"principals of the kind {', '.join(sorted(strange))} are not emulated")
    # A statement with only service principals matches no caller. An empty tuple would match all.
    return _texts(element.get("AWS", [])) or ("-",)


def _texts(value: Any) -> tuple[str, ...]:
    texts = tuple(_as_list(value))
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a text is missing")
    return texts


def _as_list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _sid_prefix(statement: Statement) -> str:
    return f"{statement.sid}: " if statement.sid else ""
