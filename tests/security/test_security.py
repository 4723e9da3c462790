"""Permissions of the roles of two tenants' stacks, tested over real clients, with IAM authorization of every request.

Every caller belongs to tenant alpha. A place is ``<tenant of the bucket>:<tenant of the key>/<rest of the key>``.
"""

import http.client
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import permission_questions as asking
import pytest
from attacks import Attack, attacks
from botocore.exceptions import ClientError
from permission_questions import (
    DATASET,
    DESCRIBED,
    EVALUATED,
    KINDS,
    LEARNER,
    OPPONENTS,
    PLAYED,
    POLICIES,
    TENSORS,
    TRAJECTORY,
    TRIED,
    WHOLE,
    Asking,
    fresh,
    held,
)
from two_tenants import ROLES, TenantsAccount, bucket, function, role, two_tenants

from marless.functions.function_specs import DEPLOYED

DENIED = ("AccessDenied", "AccessDeniedException", "403")
WORKERS = ("Actor", "Learner", "Evaluator")


@pytest.fixture(scope="module")
def place() -> Iterator[TenantsAccount]:
    with two_tenants() as place:
        yield place


Ask = Callable[[Asking, str], None]
Question = tuple[str, Ask, str, bool]
YES, NO = True, False

READS = {
    "Actor": {POLICIES, OPPONENTS, DATASET, TRAJECTORY, DESCRIBED},
    "Learner": {POLICIES, OPPONENTS, DATASET, LEARNER, TENSORS, WHOLE, PLAYED, TRAJECTORY},
    "Evaluator": {POLICIES, OPPONENTS, EVALUATED, TRIED},
    "Coordinator": set(KINDS),
}
WRITES = {
    "Actor": {TRAJECTORY, DESCRIBED},
    "Learner": {POLICIES, OPPONENTS, LEARNER, TENSORS, WHOLE, PLAYED},
    "Evaluator": {EVALUATED, TRIED},
    "Coordinator": set(KINDS),
}


def own_objects() -> Iterator[Question]:
    """Every role and every kind of object, in the role's own tenant's runs."""
    for who, kind in product(ROLES, KINDS):
        at = f"alpha:alpha/{kind}"
        yield who, asking.get, at, kind in READS[who]
        yield who, asking.put, at, kind in WRITES[who]
        yield who, asking.delete, at, who == "Coordinator"


def others_objects() -> Iterator[Question]:
    """Another tenant's keys in its bucket and in alpha's, and alpha's keys in its bucket."""
    for who, place in product(ROLES, ("beta:beta", "alpha:beta", "beta:alpha")):
        kinds = sorted(WRITES[who])[:1]
        for kind, ask in product(kinds, (asking.get, asking.head, asking.put, asking.delete, asking.copy_part)):
            yield who, ask, f"{place}/{kind}", NO
        yield who, asking.list_under, f"{place}/rounds/", NO


# Role, action, place, and whether it is allowed.
OBJECTS: list[Question] = [
    ("Actor", asking.head, f"alpha:alpha/{POLICIES}", YES),
    ("Actor", asking.put_tagged, f"alpha:alpha/{TRAJECTORY}", YES),
    ("Actor", asking.put_tagged_otherwise, f"alpha:alpha/{TRAJECTORY}", NO),
    ("Actor", asking.put_tagged_twice, f"alpha:alpha/{TRAJECTORY}", NO),
    ("Actor", asking.put_tagged, f"alpha:alpha/{DESCRIBED}", NO),
    ("Learner", asking.put_tagged, f"alpha:alpha/{POLICIES}", NO),
    ("Actor", asking.delete_many, f"alpha:alpha/{TRAJECTORY}", NO),
    ("Actor", asking.get_version, f"alpha:alpha/{POLICIES}", NO),
    ("Actor", asking.upload_once, f"alpha:alpha/{TRAJECTORY}", YES),
    ("Actor", asking.upload_once, f"alpha:alpha/{POLICIES}", NO),
    ("Coordinator", asking.delete_many, f"alpha:alpha/{LEARNER}", YES),
    ("Coordinator", asking.delete_many, f"alpha:beta/{LEARNER}", NO),
    # A role that must distinguish missing from forbidden objects may list.
    ("Actor", asking.list_under, "alpha:alpha/rounds/000001/", YES),
    ("Actor", asking.list_under, "alpha:alpha/ledger/", NO),
    ("Actor", asking.list_all, "alpha", NO),
    ("Coordinator", asking.list_under, "alpha:alpha/rounds/", YES),
    ("Coordinator", asking.list_under, "alpha:alpha/ledger/state/", YES),
    ("Coordinator", asking.list_all, "alpha", NO),
    # No role replaces an object or writes without a condition.
    ("Actor", asking.put_always, f"alpha:alpha/{TRAJECTORY}", NO),
    ("Actor", asking.overwrite, f"alpha:alpha/{TRAJECTORY}", NO),
    ("Learner", asking.overwrite, f"alpha:alpha/{POLICIES}", NO),
    ("Learner", asking.put_if_match, f"alpha:alpha/{POLICIES}", NO),
    ("Actor", asking.upload, f"alpha:alpha/{TRAJECTORY}", NO),
    ("Coordinator", asking.overwrite, f"alpha:alpha/{POLICIES}", NO),
    ("operator", asking.overwrite, f"alpha:alpha/{POLICIES}", NO),
    ("operator", asking.put, f"alpha:alpha/{POLICIES}", YES),
    ("operator", asking.upload, f"alpha:alpha/{POLICIES}", NO),
    ("operator", asking.upload_once, f"alpha:alpha/{POLICIES}", YES),
    # A copy needs read permission and cannot be conditional; parts of a copy need no condition.
    ("Actor", asking.copy, f"alpha:alpha/{POLICIES}", NO),
    ("Actor", asking.copy_part, f"alpha:alpha/{POLICIES}", YES),
    ("Actor", asking.copy_part, f"alpha:alpha/{LEARNER}", NO),
    ("operator", asking.copy, f"alpha:alpha/{POLICIES}", NO),
]

ITEMS: list[Question] = [
    # Workers report the end of a task, and cannot read the ledger.
    ("Actor", asking.add_member, "alpha:sets/alpha2/r/1/0/0", NO),
    ("Actor", asking.add_member, "alpha:sets/alpha", NO),
    ("Actor", asking.add_member, "alpha:live/alpha", NO),
    *((who, asking.add_member, "alpha:sets/alpha/r/1/0/0", YES) for who in ROLES),
    *((who, asking.add_member_and_read_all, "alpha:sets/alpha/r/1/0/0", NO) for who in WORKERS),
    *((who, asking.set_another_attribute, "alpha:sets/alpha/r/1/0/0", NO) for who in WORKERS),
    *((who, asking.set_if_another_attribute, "alpha:sets/alpha/r/1/0/0", NO) for who in WORKERS),
    *((who, asking.add_member, "alpha:sets/beta/r/1/0/0", NO) for who in ROLES),
    *((who, asking.add_member, "beta:sets/alpha/r/1/0/0", NO) for who in ROLES),
    *((who, asking.add_member, "alpha:run/alpha/r", NO) for who in WORKERS),
    *((who, asking.add_member, "alpha:run/alpha/study:s", NO) for who in WORKERS),
    *((who, asking.get_item, "alpha:run/alpha/study:s", NO) for who in WORKERS),
    *((who, asking.get_item, "alpha:sets/alpha/r/1/0/0", NO) for who in WORKERS),
    *((who, asking.put_item, "alpha:sets/alpha/r/1/0/0", NO) for who in WORKERS),
    *((who, asking.delete_item, "alpha:sets/alpha/r/1/0/0", NO) for who in WORKERS),
    *((who, asking.query, "alpha:run/alpha/r", NO) for who in WORKERS),
    *((who, asking.batch, "alpha:sets/alpha/r/1/0/0", NO) for who in WORKERS),
    ("Actor", asking.transact, "alpha:sets/alpha/r/1/0/0", NO),
    # Nothing returns values in a transaction, which the role's condition demands.
    ("Actor", asking.transact_updates, "alpha:sets/alpha/r/1/0/1", NO),
    ("Actor", asking.transact_updates, "alpha:sets/beta/r/1/0/1", NO),
    ("Actor", asking.transact_updates, "alpha:run/alpha/r", NO),
    # The coordinator keeps the ledgers, the sets and the list of live runs of its tenant.
    ("Coordinator", asking.get_item, "alpha:run/alpha/r", YES),
    ("Coordinator", asking.put_item, "alpha:run/alpha/r", YES),
    ("Coordinator", asking.delete_item, "alpha:live/alpha", YES),
    ("Coordinator", asking.query, "alpha:live/alpha", YES),
    ("Coordinator", asking.batch, "alpha:sets/alpha/r/1/0/1", YES),
    ("Coordinator", asking.put_item, "alpha:run/alpha/study:s", YES),
    ("Coordinator", asking.get_item, "alpha:run/beta/r", NO),
    ("Coordinator", asking.get_item, "alpha:run/beta/study:s", NO),
    ("Coordinator", asking.put_item, "alpha:run/beta/study:s", NO),
    ("Coordinator", asking.put_item, "beta:run/alpha/r", NO),
    ("Coordinator", asking.query, "alpha:live/beta", NO),
    ("Coordinator", asking.batch, "alpha:run/beta/r", NO),
    ("Coordinator", asking.transact, "alpha:run/alpha/r", YES),
    ("Coordinator", asking.transact, "alpha:run/beta/r", NO),
]

# The functions each role may call, on a published version or an alias; none of beta's.
CALLED = {
    "Actor": {"coordinator"},
    "Learner": {"coordinator"},
    "Evaluator": {"coordinator"},
    "Coordinator": {*DEPLOYED},
}
FUNCTIONS = (*DEPLOYED, "unrelated")


def calls() -> Iterator[Question]:
    for who, name in product(ROLES, FUNCTIONS):
        yield who, asking.invoke, f"alpha:{name}:7", name in CALLED[who]
        yield who, asking.invoke, f"alpha:{name}:", NO
        yield who, asking.invoke, f"alpha:{name}:$LATEST", NO
        yield who, asking.invoke, f"beta:{name}:7", NO
    yield "Learner", asking.invoke, "alpha:coordinator:live", YES


def lines_and_letters() -> Iterator[Question]:
    """Logs and dead letters: write-only, and only the role's own."""
    for who, other in product(ROLES, ROLES):
        yield who, asking.log, f"alpha/{other.lower()}", who == other
    for who in ROLES:
        yield who, asking.log, f"beta/{who.lower()}", NO
        yield who, asking.send, "alpha", YES
        yield who, asking.send, "beta", NO


QUESTIONS = [*own_objects(), *others_objects(), *OBJECTS, *ITEMS, *calls(), *lines_and_letters()]
ATTACKS = list(zip(attacks("alpha"), attacks("beta"), strict=True))


def _name(question: Question) -> str:
    who, ask, where, allowed = question
    return f"{who} may{'' if allowed else ' not'} {ask.__name__} {where}"


@pytest.mark.parametrize("question", QUESTIONS, ids=_name)
def test_a_role_may_do_what_it_has_to_and_nothing_else(place: TenantsAccount, question: Question) -> None:
    who, ask, where, allowed = question
    try:
        ask(Asking(place, who), where)
    except ClientError as error:
        assert not allowed, error
        assert error.response["Error"]["Code"] in DENIED, error
    else:
        assert allowed


@pytest.mark.parametrize(("own", "others"), ATTACKS, ids=[f"{own[0]} {own[1]}" for own, _ in ATTACKS])
def test_nobody_gets_further_than_that(place: TenantsAccount, own: Attack, others: Attack) -> None:
    for who, (service, operation, fields) in [*((who, own) for who in ROLES), ("Actor", others)]:
        call = getattr(place.client("alpha", who, service), operation)
        with pytest.raises(ClientError) as refused:
            call(**fields)
        assert refused.value.response["Error"]["Code"] in DENIED, f"{who}: {refused.value}"


def test_an_address_that_a_role_signs_for_another_caller_is_refused(place: TenantsAccount) -> None:
    at = held(Asking(place, "operator"), f"beta:beta/{POLICIES}")
    address = place.client("alpha", "Actor", "s3").generate_presigned_url("get_object", Params=at)
    connection = http.client.HTTPConnection(place.endpoint.removeprefix("http://"), timeout=10)
    connection.request("GET", address.removeprefix(place.endpoint))
    assert connection.getresponse().status == 403
    connection.close()


@pytest.mark.parametrize("who", ROLES)
def test_a_key_without_an_object_differs_from_a_forbidden_one(place: TenantsAccount, who: str) -> None:
    client = place.client("alpha", who, "s3")
    with pytest.raises(client.exceptions.NoSuchKey):
        client.get_object(**fresh(f"alpha:alpha/{POLICIES}"))
    with pytest.raises(ClientError) as refused:
        client.get_object(**fresh(f"alpha:beta/{POLICIES}"))
    assert refused.value.response["Error"]["Code"] == "AccessDenied"


def test_a_refusal_says_who_may_not_do_what_on_what(place: TenantsAccount) -> None:
    client = place.client("alpha", "Actor", "s3")
    at = fresh(f"alpha:beta/{POLICIES}")
    with pytest.raises(ClientError) as refused:
        client.get_object(**at)
    assert refused.value.response["Error"]["Message"] == (
        "User: arn:aws:sts::123456789012:assumed-role/marless-alpha-ActorRole/function is not authorized to perform: "
        f's3:GetObject on resource: "arn:aws:s3:::marless-alpha-objects/{at["Key"]}" '
        "because no identity-based policy allows the s3:GetObject action"
    )


@pytest.mark.parametrize("of", ["", function("beta", "actor", "")])
def test_a_session_of_a_role_that_was_not_made_for_a_function_of_its_stack_is_refused(
    place: TenantsAccount, of: str
) -> None:
    """As that of another function with the same role."""
    at = held(Asking(place, "operator"), f"alpha:alpha/{POLICIES}")
    place.client("alpha", "Actor", "s3").get_object(**at)
    elsewhere = place.authorization.issue(role("alpha", "Actor"), "elsewhere", function=of)
    with pytest.raises(ClientError) as refused:
        place.client_of(elsewhere, "s3").get_object(**at)
    assert "explicit deny (ThroughTheFunctionsOnly)" in refused.value.response["Error"]["Message"]


def test_requests_that_did_not_come_over_tls_are_refused_to_everybody(place: TenantsAccount) -> None:
    for client in (place.client("alpha", "Coordinator", "s3"), place.operator("s3")):
        insecure = _with_header(client, "X-Emulated-Secure-Transport", "false")
        with pytest.raises(ClientError) as refused, insecure:
            client.list_objects_v2(Bucket=bucket("alpha"), Prefix="tenants/alpha/runs/r/")
        assert "explicit deny (OnlyOverTls)" in refused.value.response["Error"]["Message"]


class _with_header:  # noqa: N801
    """Adds a header to every request of a client."""

    def __init__(self, client: Any, name: str, value: str) -> None:
        self._client, self._name, self._value = client, name, value

    def __enter__(self) -> None:
        self._client.meta.events.register_last("before-sign.s3", self._add, unique_id="header")

    def __exit__(self, *_: object) -> None:
        self._client.meta.events.unregister("before-sign.s3", self._add, unique_id="header")

    def _add(self, request: Any, **_: Any) -> None:
        request.headers[self._name] = self._value
