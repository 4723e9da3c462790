"""Items in DynamoDB: large bodies and the service's errors. The contract of all ledgers is in tests/contracts."""

import base64
import io
import json
import time
import uuid
from types import SimpleNamespace

import pytest
from stand_in import answer, fault, json_error, lost, moto, standing, unheard

from aws_emulator.middleware.capacity import item_size
from marless.coordinator.core.budget import ITEM_OVERHEAD_BYTES
from marless.functions.errors import StaleVersion, StorageFault
from marless.infra.aws import dynamodb
from marless.infra.aws.completion_sets import DynamoCompletions
from marless.infra.aws.dynamodb import DynamoLedger
from marless.infra.aws.s3 import S3Storage

BUCKET, TABLE = "objects", "runs"
SMALL, LARGE = b"s", b"L" * (dynamodb.LARGEST + 1)


@pytest.fixture(scope="module")
def service():
    with standing(moto()) as service:
        service.cloud.client("s3").create_bucket(Bucket=BUCKET)
        keys = [("scope", "HASH"), ("item", "RANGE")]
        service.cloud.client("dynamodb").create_table(
            TableName=TABLE,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
        )
        yield service


@pytest.fixture
def run():
    return str(uuid.uuid4())


@pytest.fixture
def spill(service, run):
    return S3Storage(service.cloud, BUCKET, f"tenants/one/runs/{run}")


@pytest.fixture
def opened(service, run, spill):
    return lambda storage=spill: DynamoLedger(service.cloud, TABLE, f"run/one/{run}", storage)


@pytest.fixture
def ledger(opened):
    return opened()


@pytest.fixture(autouse=True)
def _calm(service):
    yield
    service.do("")


def versions(spill, item="state"):
    return [int(key.removeprefix(f"ledger/{item}/").split("-")[0]) for key in spill.list(f"ledger/{item}/")]


def test_an_item_says_when_it_was_written(ledger):
    before = time.time()
    ledger.commit("state", SMALL, 0)
    # Stored to the millisecond.
    assert before - 0.001 <= ledger.load("state").at <= time.time() + 0.001


@pytest.mark.parametrize("tenant", ["a", "default", "a-tenant-with-thirty-one-letters"[:31]])
@pytest.mark.parametrize("item", ["state", "checkpoint", "line/000123"])
def test_item_size_is_body_plus_run_name(service, spill, run, tenant, item):
    # A run's bill (marless.coordinator.core.budget) depends on it. The size follows DynamoDB's own rule.
    ledger, version = DynamoLedger(service.cloud, TABLE, f"run/{tenant}/{run}", spill), 0
    for _ in range(12):
        version = ledger.commit(item, SMALL, version)
        key = {"scope": {"S": f"run/{tenant}/{run}"}, "item": {"S": item}}
        found = service.cloud.client("dynamodb").get_item(TableName=TABLE, Key=key)["Item"]
        held = {name: {kind: _attribute(value) for kind, value in entry.items()} for name, entry in found.items()}
        assert item_size(held) == len(SMALL) + ITEM_OVERHEAD_BYTES + len(run)


def _attribute(value):
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def test_runs_do_not_see_each_other(service, spill, ledger, run):
    ledger.commit("state", SMALL, 0)
    other = DynamoLedger(service.cloud, TABLE, f"run/one/{run}-2", spill)
    assert other.load("state") is None
    assert other.items("") == []


def test_lost_reply_does_not_make_commit_stale(service, ledger):
    ledger.commit("state", b"a", 0)
    service.do("PutItem", lost)
    assert ledger.commit("state", b"b", 1) == 2
    assert service.seen == ["PutItem", "PutItem"]
    assert ledger.commit("state", b"c", 2) == 3


# The winner wrote the same body. A large body is an object that must stay.
@pytest.mark.parametrize("body", [b"same", LARGE], ids=["small", "large"])
def test_an_overtaken_commit_is_stale(service, opened, body):
    mine, theirs = opened(), opened()

    def overtaken(environ, start, app):
        theirs.commit("state", body, 0)
        return app(environ, start)

    service.do("PutItem", overtaken)
    with pytest.raises(StaleVersion) as refusal:
        mine.commit("state", body, 0)
    assert body == LARGE or refusal.value.size == 4
    assert mine.load("state").body == body


def test_lost_reply_then_foreign_commit_is_stale(service, opened):
    mine, theirs = opened(), opened()

    def lost_and_overtaken(environ, start, app):
        b"".join(app(environ, lambda *_: None))
        theirs.commit("state", b"theirs", 1)
        raise ConnectionAbortedError

    service.do("PutItem", lost_and_overtaken)
    with pytest.raises(StaleVersion):
        mine.commit("state", b"mine", 0)
    assert mine.load("state").body == b"theirs"


@pytest.mark.parametrize("name", ["ProvisionedThroughputExceededException", "ThrottlingException"])
def test_throttling_is_waited_out(service, ledger, name):
    service.do("PutItem", *[json_error("400 Bad Request", name)] * 2)
    assert ledger.commit("state", SMALL, 0) == 1
    assert service.seen == ["PutItem"] * 3


def test_largest_body_stays_in_item_larger_in_object(ledger, spill):
    ledger.commit("state", LARGE[:-1], 0)
    assert (ledger.load("state").body, versions(spill)) == (LARGE[:-1], [])
    ledger.commit("state", LARGE, 1)
    assert (ledger.load("state").body, versions(spill)) == (LARGE, [2])


def test_new_version_deletes_old_object(ledger, opened, spill):
    ledger.commit("state", LARGE, 0)
    ledger.commit("state", LARGE + b"2", 1)
    assert versions(spill) == [2]
    another = opened()
    assert another.load("state").body == LARGE + b"2"
    another.commit("state", SMALL, 2)
    assert versions(spill) == []
    assert ledger.load("state").body == SMALL


def test_objects_of_items_with_longer_names_stay(ledger, spill):
    ledger.commit("line/000001", LARGE, 0)
    ledger.commit("line", LARGE, 0)
    ledger.commit("line", LARGE, 1)
    assert ledger.load("line/000001").body == LARGE


def test_a_stale_commit_leaves_no_object_behind(ledger, spill):
    ledger.commit("state", SMALL, 0)
    for version in (0, 7):
        with pytest.raises(StaleVersion):
            ledger.commit("state", LARGE, version)
    assert versions(spill) == []


class Mortal:
    """Storage that ends its process at a call."""

    def __init__(self, storage, at):
        self._storage, self._at = storage, at

    def __getattr__(self, name):
        return self._die if name == self._at else getattr(self._storage, name)

    def _die(self, *_):
        raise SystemExit


def test_death_before_item_changes_leaves_it_unchanged(service, opened, ledger, spill, give_up_after):
    ledger.commit("state", LARGE, 0)
    give_up_after(1)
    dying = opened()
    service.do("PutItem", unheard)
    with pytest.raises(StorageFault, match="the connection broke"):
        dying.commit("state", LARGE + b"2", 1)
    assert ledger.load("state").body == LARGE
    assert versions(spill) == [1, 2]
    # The next commits succeed, and clean up.
    assert ledger.commit("state", LARGE + b"3", 1) == 2
    assert ledger.commit("state", LARGE + b"4", 2) == 3
    assert versions(spill) == [3]


def test_death_before_deletion_leaves_object_to_next_commit(opened, ledger, spill):
    ledger.commit("state", LARGE, 0)
    dying = opened(Mortal(spill, "delete"))
    dying.load("state")
    with pytest.raises(SystemExit):
        dying.commit("state", LARGE + b"2", 1)
    assert versions(spill) == [1, 2]
    assert opened().load("state").body == LARGE + b"2"
    successor = opened()
    successor.load("state")
    successor.commit("state", LARGE + b"3", 2)
    assert versions(spill) == [3]


def test_commit_holds_when_old_object_cannot_be_deleted(service, ledger, spill):
    ledger.commit("state", LARGE, 0)
    service.do("POST", answer("403 Forbidden", b"<Error><Code>AccessDenied</Code></Error>"))
    assert ledger.commit("state", LARGE + b"2", 1) == 2
    assert ledger.load("state").body == LARGE + b"2"
    assert versions(spill) == [1, 2]


@pytest.mark.parametrize("read", [lambda one: [("state", one.load("state").body)], lambda one: one.items("")])
def test_a_reader_overtaken_before_the_object_reads_anew(service, opened, ledger, read):
    ledger.commit("state", LARGE, 0)
    reader = opened()

    def overtaken(environ, start, app):
        ledger.commit("state", LARGE + b"2", 1)
        return app(environ, start)

    service.do("GET", overtaken)
    assert read(reader) == [("state", LARGE + b"2")]


def test_every_read_sees_all_that_was_written_before(service, ledger):
    """Reads of DynamoDB are eventually consistent by default (developer guide, "Read consistency")."""
    asked = []

    def listen(environ, start, app):
        whole = environ["wsgi.input"].read()
        asked.append(json.loads(whole).get("ConsistentRead"))
        return app({**environ, "wsgi.input": io.BytesIO(whole)}, start)

    service.do("GetItem", listen)
    ledger.load("state")
    service.do("Query", listen)
    ledger.items("line/")
    assert asked == [True, True]


def test_item_with_missing_object_is_fault(ledger, spill):
    ledger.commit("state", LARGE, 0)
    spill.delete(spill.list("ledger/"))
    assert "its body is missing" in fault(lambda: ledger.load("state"))


def test_items_are_listed_by_prefix_with_their_bodies(ledger):
    for number, body in ((12, b"12"), (3, LARGE), (1, b"")):
        ledger.commit(f"line/{number:06}", body, 0)
    ledger.commit("state", SMALL, 0)
    assert ledger.items("line/") == [("line/000001", b""), ("line/000003", LARGE), ("line/000012", b"12")]
    assert [item for item, _ in ledger.items("")] == ["line/000001", "line/000003", "line/000012", "state"]
    assert ledger.items("lease") == []


def test_a_list_may_begin_after_an_item(ledger):
    for item in ("lease", "line/000001", "line/000002", "line/000003", "plan"):
        ledger.commit(item, SMALL, 0)
    assert [item for item, _ in ledger.items("line/", after="line/000001")] == ["line/000002", "line/000003"]
    assert ledger.items("line/", after="line/000003") == []


def test_items_beyond_one_page_are_all_listed(ledger):
    """One answer of Query has at most 1 MB (developer guide, "Paginating table query results")."""
    bodies = [(f"line/{number:06}", bytes([number]) * 300_000) for number in range(5)]
    for item, body in bodies:
        ledger.commit(item, body, 0)
    assert ledger.items("line/") == bodies


def test_removed_item_loses_object_and_can_begin_again(ledger, spill):
    ledger.commit("state", SMALL, 0)
    ledger.commit("state", LARGE, 1)
    ledger.remove("state")
    ledger.remove("state")
    assert (ledger.load("state"), versions(spill)) == (None, [])
    assert ledger.commit("state", SMALL, 0) == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ResourceNotFoundException", "deploy with `marless cloud deploy`"),
        ("ExpiredTokenException", "the credentials have expired"),
        ("UnrecognizedClientException", "check which profile or access key is in use"),
        ("AccessDeniedException", "access denied: the credentials in use lack the permission dynamodb:PutItem"),
        ("ValidationException", "ValidationException: said AWS"),
    ],
)
def test_refusal_of_dynamodb_is_one_line_with_advice(service, ledger, run, name, words):
    service.do("PutItem", json_error("400 Bad Request", name))
    line = fault(lambda: ledger.commit("state", SMALL, 0))
    assert line.startswith(f"cannot write run/one/{run}/state in the table {TABLE}: ")
    assert words in line


def test_throttling_without_end_says_to_wait(service, opened, give_up_after):
    give_up_after(1)
    ledger = opened()
    service.do("GetItem", json_error("400 Bad Request", "ProvisionedThroughputExceededException"))
    assert "wait a minute and go on with `marless resume`" in fault(lambda: ledger.load("state"))


def test_machines_with_different_clocks_agree_on_the_time(ledger, monkeypatch):
    true = time.time
    ledger.commit("state", SMALL, 0)
    ledger.load("state")
    here = ledger.now()
    with monkeypatch.context() as patched:
        patched.setattr("marless.infra.aws.dynamodb.time", SimpleNamespace(time=lambda: true() + 3600.0))
        ledger.load("state")
        elsewhere = ledger.now()
    # The header `Date` has whole seconds.
    assert abs(here - true()) < 2.0 and abs(elsewhere - true()) < 2.0


def test_unprocessed_sets_are_requested_again_after_pause(service, monkeypatch):
    sets, pauses = DynamoCompletions(service.cloud, TABLE, "sets/default/busy"), []
    sets.add("one", b"member")
    monkeypatch.setattr("marless.infra.aws.completion_sets.time.sleep", pauses.append)

    def unprocessed(environ, start, app):
        wanted = json.loads(environ["wsgi.input"].read())["RequestItems"]
        start("200 OK", [("Content-Type", "application/x-amz-json-1.0")])
        return [json.dumps({"Responses": {}, "UnprocessedKeys": wanted}).encode()]

    service.do("BatchGetItem", *[unprocessed] * 5)
    assert sets.read(["one"]) == [{b"member"}]
    assert len(pauses) == 5
    # Full jitter: the n-th pause is uniform up to 0.05 s times 2^n.
    assert all(0 <= pause <= 0.05 * 2**n for n, pause in enumerate(pauses))


@pytest.mark.parametrize("members", [{"S": "none"}, {"L": []}, {"NULL": True}, {"SS": ["none"]}, {"B": b"none"}])
def test_set_of_other_type_is_empty_and_unwritable(service, members):
    sets = DynamoCompletions(service.cloud, TABLE, "sets/default/spoilt")
    key = {"scope": {"S": "sets/default/spoilt/one"}, "item": {"S": "set"}}
    service.cloud.client("dynamodb").put_item(TableName=TABLE, Item={**key, "members": members})
    assert sets.read(["one"]) == [frozenset()]
    assert "report to the table" in fault(lambda: sets.add("one", b"member"))
