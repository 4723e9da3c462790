"""Permissions of the roles of two tenants' stacks, tested over real clients, with IAM authorization of every request.

Every caller belongs to tenant alpha. A place is ``<tenant of the bucket>:<tenant of the key>/<rest of the key>``.
"""

import csv
import http.client
import json
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import permission_questions as asking
import pytest
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


with Path(__file__).with_name("requests.csv").open(encoding="utf-8", newline="") as file:
    REQUESTS: list[Question] = [
        (row["who"], getattr(asking, row["call"]), row["place"], row["may"] == "yes") for row in csv.DictReader(file)
    ]

# The functions each role may call, on a published version or an alias. All are of its own tenant.
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


QUESTIONS = [*own_objects(), *others_objects(), *REQUESTS, *calls(), *lines_and_letters()]
# Attacks by third-party code with the credentials of the function that runs it: service, operation, and fields of the
# request. They are for resources of TENANT's stack and of its account. An object need not exist.
ATTACKS = Path(__file__).with_name("attacks.json").read_text(encoding="utf-8")
Attack = tuple[str, str, dict[str, Any]]
OWN, OTHERS = (json.loads(ATTACKS.replace("TENANT", tenant)) for tenant in ("alpha", "beta"))


def _name(question: Question) -> str:
    who, ask, where, allowed = question
    return f"{who} may{'' if allowed else ' not'} {ask.__name__} {where}"


@pytest.mark.parametrize("question", QUESTIONS, ids=_name)
def test_role_has_only_permissions_it_needs(place: TenantsAccount, question: Question) -> None:
    who, ask, where, allowed = question
    try:
        ask(Asking(place, who), where)
    except ClientError as error:
        assert not allowed, error
        assert error.response["Error"]["Code"] in DENIED, error
    else:
        assert allowed


@pytest.mark.parametrize(("own", "others"), [*zip(OWN, OTHERS, strict=True)], ids=[" ".join(own[:2]) for own in OWN])
def test_nobody_gets_further_than_that(place: TenantsAccount, own: Attack, others: Attack) -> None:
    for who, (service, operation, fields) in [*((who, own) for who in ROLES), ("Actor", others)]:
        call = getattr(place.client("alpha", who, service), operation)
        with pytest.raises(ClientError) as refused:
            call(**fields)
        assert refused.value.response["Error"]["Code"] in DENIED, f"{who}: {refused.value}"


def test_presigned_address_for_other_caller_is_refused(place: TenantsAccount) -> None:
    at = held(Asking(place, "operator"), f"beta:beta/{POLICIES}")
    address = place.client("alpha", "Actor", "s3").generate_presigned_url("get_object", Params=at)
    connection = http.client.HTTPConnection(place.endpoint.removeprefix("http://"), timeout=10)
    connection.request("GET", address.removeprefix(place.endpoint))
    assert connection.getresponse().status == 403
    connection.close()


@pytest.mark.parametrize("who", ROLES)
def test_missing_key_differs_from_forbidden_key(place: TenantsAccount, who: str) -> None:
    client = place.client("alpha", who, "s3")
    with pytest.raises(client.exceptions.NoSuchKey):
        client.get_object(**fresh(f"alpha:alpha/{POLICIES}"))
    with pytest.raises(ClientError) as refused:
        client.get_object(**fresh(f"alpha:beta/{POLICIES}"))
    assert refused.value.response["Error"]["Code"] == "AccessDenied"


def test_refusal_names_caller_action_and_resource(place: TenantsAccount) -> None:
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
def test_session_of_foreign_function_role_is_refused(place: TenantsAccount, of: str) -> None:
    """For example, the session of another function with the same role."""
    at = held(Asking(place, "operator"), f"alpha:alpha/{POLICIES}")
    place.client("alpha", "Actor", "s3").get_object(**at)
    elsewhere = place.authorization.issue(role("alpha", "Actor"), "elsewhere", function=of)
    with pytest.raises(ClientError) as refused:
        place.client_of(elsewhere, "s3").get_object(**at)
    assert "explicit deny (ThroughTheFunctionsOnly)" in refused.value.response["Error"]["Message"]


def test_requests_without_tls_are_refused_to_everyone(place: TenantsAccount) -> None:
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
