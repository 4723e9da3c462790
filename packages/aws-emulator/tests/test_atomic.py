"""Of racing conditional writes exactly one wins, which moto alone does not guarantee."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError
from emulated_accounts import Caller
from moto.dynamodb.models import table
from moto.s3.models import S3Backend

from aws_emulator.listener import listen
from aws_emulator.middleware.atomic import Atomic
from aws_emulator.moto_services import MotoServices

WRITERS, ROUNDS = 40, 6
LOST = {"PreconditionFailed", "ConditionalCheckFailedException"}

NUMBERS = count(1)


@contextmanager
def served(app):
    """A cloud of `app` at its own address, with a bucket and a table."""
    server = listen(app)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    cloud = Caller(f"http://127.0.0.1:{server.server_port}")
    name = f"racing-{next(NUMBERS)}"  # moto keeps tables of all servers, and ports come back
    cloud.client("s3").create_bucket(Bucket=name)
    cloud.client("dynamodb").create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "scope", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "scope", "KeyType": "HASH"}],
    )
    try:
        yield cloud, name
    finally:
        server.shutdown()


@pytest.fixture
def gap(monkeypatch):
    """Lengthens the time between moto's check and its write, so that other requests check meanwhile."""
    put_object, filter_of = S3Backend.put_object, table.get_filter_expression

    def late_put_object(*arguments, **named):
        time.sleep(0.005)
        return put_object(*arguments, **named)

    def late_filter(*arguments, **named):
        looked = filter_of(*arguments, **named)

        def look(item):
            seen = looked.expr(item)
            time.sleep(0.001)
            return seen

        return SimpleNamespace(expr=look)

    monkeypatch.setattr(S3Backend, "put_object", late_put_object)
    monkeypatch.setattr(table, "get_filter_expression", late_filter)


def winners(write):
    """The number of writers that succeed when all call `write(writer)` at once."""
    together = threading.Barrier(WRITERS)

    def one(writer):
        together.wait()
        try:
            write(writer)
        except ClientError as error:
            assert error.response["Error"]["Code"] in LOST, error
            return False
        return True

    with ThreadPoolExecutor(WRITERS) as pool:
        return sum(pool.map(one, range(WRITERS)))


def objects(cloud, bucket):
    client = cloud.client("s3")
    return lambda name: lambda writer: client.put_object(Bucket=bucket, Key=name, Body=b"%d" % writer, IfNoneMatch="*")


def items(cloud, place):
    client = cloud.client("dynamodb")
    return lambda name: (
        lambda writer: client.put_item(
            TableName=place,
            Item={"scope": {"S": name}, "by": {"N": str(writer)}},
            ConditionExpression="attribute_not_exists(#scope)",
            ExpressionAttributeNames={"#scope": "scope"},
        )
    )


@pytest.mark.parametrize("writing", [objects, items])
def test_of_racing_conditional_writes_exactly_one_wins(writing, gap):
    with served(Atomic(MotoServices())) as (cloud, name):
        race = writing(cloud, name)
        assert [winners(race(f"round-{number}")) for number in range(ROUNDS)] == [1] * ROUNDS


@pytest.mark.parametrize("writing", [objects, items])
def test_without_turns_several_win(writing, gap):
    with served(MotoServices()) as (cloud, name):
        race = writing(cloud, name)
        assert any(winners(race(f"round-{number}")) > 1 for number in range(ROUNDS))


def test_no_addition_to_a_set_is_lost():
    with served(Atomic(MotoServices())) as (cloud, name):
        client = cloud.client("dynamodb")

        def add(writer):
            client.update_item(
                TableName=name,
                Key={"scope": {"S": "set"}},
                UpdateExpression="ADD members :one",
                ExpressionAttributeValues={":one": {"BS": [b"%d" % writer]}},
            )

        assert winners(add) == WRITERS
        members = client.get_item(TableName=name, Key={"scope": {"S": "set"}})["Item"]["members"]["BS"]
        assert sorted(members) == sorted(b"%d" % writer for writer in range(WRITERS))


def test_a_version_is_replaced_once():
    with served(Atomic(MotoServices())) as (cloud, name):
        client, key = cloud.client("dynamodb"), {"scope": {"S": "state"}}
        client.put_item(TableName=name, Item={**key, "version": {"N": "1"}})

        def replace(writer):
            client.update_item(
                TableName=name,
                Key=key,
                UpdateExpression="SET version = :next",
                ConditionExpression="version = :known",
                ExpressionAttributeValues={":known": {"N": "1"}, ":next": {"N": "2"}},
            )

        assert winners(replace) == 1


def test_deleting_many_keys_waits_for_one_write():
    begun, go_on, deleted = threading.Event(), threading.Event(), threading.Event()

    def slow(environ, start):
        if environ["REQUEST_METHOD"] == "PUT":
            begun.set()
            assert go_on.wait(60)
        elif environ["REQUEST_METHOD"] == "POST":
            deleted.set()
        return []

    app = Atomic(slow)
    signed = {"HTTP_AUTHORIZATION": "AWS4-HMAC-SHA256 Credential=AKIA/20260101/us-east-1/s3/aws4_request, "}
    put = {**signed, "REQUEST_METHOD": "PUT", "PATH_INFO": "/bucket/key"}
    delete = {**signed, "REQUEST_METHOD": "POST", "PATH_INFO": "/bucket", "QUERY_STRING": "delete="}
    get = {**signed, "REQUEST_METHOD": "GET", "PATH_INFO": "/bucket/key"}
    with ThreadPoolExecutor(2) as pool:
        writing = pool.submit(app, put, None)
        assert begun.wait(60)
        deleting = pool.submit(app, delete, None)
        assert app(get, None) == []  # reads take no lock
        assert not deleted.wait(0.2)
        go_on.set()
        assert (writing.result(), deleting.result()) == ([], [])
    assert deleted.is_set()
