"""The adapters over a network that is slow, lossy and forgetful, between them and a service that answers 'yes'.

Whole runs over it are in tests/emulated/test_bad_networks.py.
"""

import socket
import sys
import threading
import time

import pytest
from attempts import attempt_of
from stand_in import lost, standing

from aws_emulator import tcp_table
from aws_emulator.network import Conditions
from marless.infra.aws import clients, lambda_calls
from marless.infra.aws.awslambda import EventInvoker, LambdaInvoker
from marless.infra.aws.clients import Cloud, Requests

FUNCTIONS = {"actor": "marless-one-actor:7"}
# The largest request that Lambda takes. The kernel's buffers hold half of it.
LARGE = b'"' + b"x" * (6 * 1024 * 1024 - 2) + b'"'
TIMEOUT_S = 300.0
CALLS = {
    "s3": lambda client: client.head_bucket(Bucket="any"),
    "dynamodb": lambda client: client.list_tables(),
    "lambda": lambda client: client.list_functions(),
}
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's table of connections is Linux's")


class Service:
    def __init__(self):
        self.lock, self.executed = threading.Lock(), 0

    def __call__(self, environ, start):
        with self.lock:
            self.executed += 1
        start("202 Accepted" if environ.get("HTTP_X_AMZ_INVOCATION_TYPE") == "Event" else "200 OK", [])
        return [b'"yes"' if "/functions/" in environ["PATH_INFO"] else b""]


@pytest.fixture
def app():
    return Service()


@pytest.fixture
def service(app):
    with standing(app) as service:
        yield service


@pytest.fixture
def invoke(service):
    made = []

    def call(body=b"{}", count=1):
        invoker = LambdaInvoker(service.cloud, FUNCTIONS, count)
        made.append(invoker)
        return ask(invoker, body, count)

    yield call
    for invoker in made:
        invoker.close()


def ask(invoker, body, count=1):
    for number in range(count):
        invoker.invoke(attempt_of("actor", str(number), 0, body, TIMEOUT_S))
    reports = []
    while len(reports) < count:
        new = invoker.wait(20.0)
        assert new, f"only {len(reports)} reports of {count} came"
        reports += new
    return reports


def billed_at_the_time_out(reports):
    return sum(report.duration_ms == TIMEOUT_S * 1000 for report in reports)


def test_large_request_may_exceed_connect_timeout(service, app, invoke, monkeypatch):
    monkeypatch.setattr(lambda_calls, "_CONNECT_S", 0.3)
    service.network.conditions = Conditions(bytes_per_s=6e6)
    (report,) = invoke(LARGE)
    assert (report.outcome, app.executed) == ("answered", 1)
    assert 1000 < report.duration_ms < TIMEOUT_S * 1000


def test_requests_that_share_a_slow_line_all_arrive(service, app, invoke):
    service.network.conditions = Conditions(bytes_per_s=4e6)
    reports = invoke(b'"' + b"x" * 100_000 + b'"', count=32)
    assert {report.outcome for report in reports} == {"answered"}
    assert app.executed == 32


def test_request_broken_while_sending_is_resent_unbilled(service, app, invoke):
    service.network.conditions = Conditions(tear=0.5)
    reports = [report for _ in range(12) for report in invoke(LARGE)]
    torn = service.network.happened["tear"]
    assert {report.outcome for report in reports} == {"answered"}
    assert torn > 0 and app.executed == 12
    assert billed_at_the_time_out(reports) == 0


def test_event_broken_while_sending_is_resent(service, app):
    service.network.conditions = Conditions(tear=0.5)
    events = EventInvoker(service.cloud, FUNCTIONS, 4)
    for number in range(12):
        events.invoke(attempt_of("actor", str(number), 0, LARGE[:1_000_000], TIMEOUT_S))
    assert events.flush(30.0) == []
    assert service.network.happened["tear"] > 0
    assert app.executed == 12


@pytest.mark.parametrize("kind", ["drop", "lose"])
def test_fully_sent_request_is_billed_as_run(service, app, invoke, kind):
    service.network.conditions = Conditions(**{kind: 1.0})
    reports = invoke()
    assert [report.outcome for report in reports] == ["crash"]
    assert billed_at_the_time_out(reports) == 1
    assert app.executed == (kind == "lose")


def test_a_network_delays_and_counts(service, invoke):
    service.network.conditions = Conditions(latency_s=0.2)
    began = time.monotonic()
    reports = [report for _ in range(10) for report in invoke()]
    # Ten delays uniform in 0 to 0.2 s: their sum is below 0.2 s once in 3.6 million times (Irwin-Hall, 1/10!).
    assert time.monotonic() - began > 0.2
    assert service.network.happened["latency"] == len(reports) == 10


def test_resent_requests_count_with_their_maximum(service):
    cloud = service.cloud
    s3, table = cloud.client("s3"), cloud.client("dynamodb")
    cloud.retries.take()
    service.network.conditions = Conditions(lose=0.3)
    for _ in range(10):
        s3.put_object(Bucket="any", Key="key", Body=b"12345")
    lost_puts = service.network.happened["lose"]
    assert lost_puts > 0 and cloud.retries.take() == Requests(puts=lost_puts)
    # 3,000 bytes are 4,000 in base64, and with the names less than 4,096: 4 units instead of 3.
    for _ in range(10):
        table.put_item(TableName="any", Item={"scope": {"S": "run/a/b"}, "body": {"B": b"x" * 3000}})
    lost_items = service.network.happened["lose"] - lost_puts
    assert lost_items > 0 and cloud.retries.take() == Requests(write_units=4 * lost_items)
    assert cloud.retries.take() == Requests()


KEY = {"scope": {"S": "sets/a/b"}, "item": {"S": "1"}}
QUERY = {"KeyConditionExpression": "a = :a", "ExpressionAttributeValues": {":a": {"S": "b"}}}
# Limits: 400 KB per item, 1 MB per page of a query, 16 MB and 100 items per answer of BatchGetItem. Items are rounded
# up (developer guide, "Constraints", and API reference, `Query` and `BatchGetItem`).
LARGEST = {
    "GetItem": (lambda table: table.get_item(TableName="any", Key=KEY), Requests(read_units=100)),
    "Query": (lambda table: table.query(TableName="any", **QUERY), Requests(read_units=256)),
    "BatchGetItem": (
        lambda table: table.batch_get_item(RequestItems={"any": {"Keys": [KEY]}}),
        Requests(read_units=4196),
    ),
    "UpdateItem": (lambda table: table.update_item(TableName="any", Key=KEY), Requests(write_units=400)),
}


@pytest.mark.parametrize("operation", LARGEST)
def test_repeated_request_with_unknown_items_counts_as_largest(service, operation):
    call, most = LARGEST[operation]
    service.do(operation, lost)
    call(service.cloud.client("dynamodb"))
    assert service.cloud.retries.take() == most


# The next two tests ask until the network has noticed a silence. A busy machine may notice only after the next request.
@ON_LINUX
def test_long_silent_connection_is_kept_by_probes(service, app):
    service.network.conditions = Conditions(forget_after_s=0.05)
    invoker = LambdaInvoker(service.cloud, FUNCTIONS, 1)
    asked = 0
    while service.network.happened["kept"] < 2 and asked < 100:
        assert [report.outcome for report in ask(invoker, b"{}")] == ["answered"]
        asked += 1
        time.sleep(0.1)
    assert service.network.happened == {"kept": 2} and app.executed == asked
    invoker.close()


@ON_LINUX
def test_silent_connection_without_probes_is_dropped(service, app, monkeypatch):
    monkeypatch.setattr(clients, "_KEEPALIVE", [])
    service.network.conditions = Conditions(forget_after_s=0.05)
    invoker = LambdaInvoker(service.cloud, FUNCTIONS, 1, answer_s=2.0)
    ends = []
    while not service.network.happened["forgotten"] and len(ends) < 100:
        ends.append(billed_at_the_time_out(ask(invoker, b"{}")))
        time.sleep(0.1)
    assert ends == [0] * app.executed + [1]
    assert app.executed > 0 and service.network.happened == {"forgotten": 1}
    invoker.close()


@ON_LINUX
@pytest.mark.parametrize("name", CALLS)
def test_the_kernel_probes_the_connections_of_every_client(name):
    """Before a NAT gateway forgets them, 350 s after the last packet, and before most home routers do."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        client = Cloud("us-east-1", f"http://127.0.0.1:{port}", ("a", "b", None)).client(name)
        asking = threading.Thread(target=CALLS[name], args=(client,))
        asking.start()
        connection, (_, own_port) = server.accept()
        with connection:
            connection.recv(1)
            assert 0 < tcp_table.next_probe_s(own_port, port) <= 60
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        asking.join()
