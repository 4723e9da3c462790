"""Objects in S3: how the adapter handles the service's errors. The contract of all storage is in tests/contracts."""

import dataclasses
import socket
import uuid

import msgspec
import numpy as np
import pytest
from moto.s3.models import s3_backends
from stand_in import answer, fault, flipped, lost, moto, s3_error, stalled, standing, torn
from task_fields import make_task

from marless.functions import codec
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.errors import KeyTaken
from marless.functions.messages.exchange import Answer, Done
from marless.functions.messages.learner import InitialiseReply, InitialiseTask
from marless.functions.messages.team import Team
from marless.functions.serving import Output, serve
from marless.infra.aws import clients as clouds
from marless.infra.aws.clients import Cloud
from marless.infra.aws.s3 import S3Heads, S3Storage

BUCKET = "objects"


@pytest.fixture(scope="module")
def service():
    with standing(moto()) as service:
        service.cloud.client("s3").create_bucket(Bucket=BUCKET)
        yield service


@pytest.fixture
def prefix():
    return f"tenants/one/runs/{uuid.uuid4()}"


@pytest.fixture
def storage(service, prefix):
    return S3Storage(service.cloud, BUCKET, prefix)


@pytest.fixture(autouse=True)
def _calm(service):
    yield
    service.do("")


def test_a_prefix_is_a_folder_of_its_own(service, storage, prefix):
    neighbour = S3Storage(service.cloud, BUCKET, f"{prefix}-2/")
    neighbour.put("a", b"theirs")
    storage.put("a", b"mine")
    assert (storage.list(""), storage.get("a"), neighbour.get("a")) == (["a"], b"mine", b"theirs")
    storage.delete(["a"])
    assert neighbour.list("") == ["a"]


@pytest.mark.parametrize(("header", "requests"), [(100, 1), (16 * 1024 - 8, 1), (16 * 1024, 2), (50_000, 2)])
def test_header_is_read_in_one_or_two_requests(service, storage, prefix, header, requests):
    # A safetensors object begins with the bytes of its header as a number of eight bytes. 16 KB are read first.
    body = header.to_bytes(8, "little") + bytes(index % 251 for index in range(header)) + bytes(70_000)
    storage.put("a", body)
    service.do("")
    [head, missing] = S3Heads(service.cloud, BUCKET, f"{prefix}/")(["a", "b"])
    assert head.start[: 8 + header] == body[: 8 + header] and head.start == body[: len(head.start)]
    assert (head.size, head.gets, missing) == (len(body), requests, None)
    assert service.seen.count("GET") == requests + 1


@pytest.mark.parametrize("prefix", ["", "/", "/run", "tenants/../other", "tenants//run"])
def test_a_prefix_that_is_no_folder_is_refused(service, prefix):
    with pytest.raises(ValueError, match="is not a key"):
        S3Storage(service.cloud, BUCKET, prefix)


def test_an_object_s_hash_is_beside_it(service, storage, prefix):
    storage.put("a", b"abc")
    metadata = service.cloud.client("s3").head_object(Bucket=BUCKET, Key=f"{prefix}/a")["Metadata"]
    # FIPS 180-2, appendix B.1.
    assert metadata["sha256"] == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_listing_and_deleting_know_more_than_one_page(service, storage, prefix):
    keys = [f"rounds/{number:04}" for number in range(1001)]
    for key in keys:  # bypasses the service's authentication, which would take seconds
        s3_backends["123456789012"]["aws"].put_object(BUCKET, f"{prefix}/{key}", b"")
    assert storage.list("rounds/") == keys
    service.do("")
    storage.delete(keys)
    assert service.seen == ["POST", "POST"]
    assert storage.list("") == []


@pytest.mark.parametrize(
    ("status", "code"), [("503 Slow Down", "SlowDown"), ("409 Conflict", "ConditionalRequestConflict")]
)
def test_slow_downs_and_conflicts_are_waited_out(service, storage, status, code):
    service.do("PUT", *[s3_error(status, code)] * 3)
    storage.put("a", b"body")
    assert service.seen == ["PUT"] * 4
    assert storage.get("a") == b"body"


def test_slow_down_without_end_says_to_wait(service, storage, prefix, give_up_after):
    give_up_after(2)
    impatient = S3Storage(service.cloud, BUCKET, prefix)
    service.do("PUT", *[s3_error("503 Slow Down", "SlowDown")] * 2)
    assert "wait a minute" in fault(lambda: impatient.put("a", b"body"))
    assert service.seen == ["PUT"] * 2


def test_conflicts_do_not_hide_taken_key(service, storage):
    storage.put("a", b"first")
    service.do("PUT", s3_error("409 Conflict", "ConditionalRequestConflict"))
    with pytest.raises(KeyTaken):
        storage.put("a", b"second")


def test_lost_reply_leaves_object_and_key_is_taken(service, storage):
    service.do("PUT", lost)
    with pytest.raises(KeyTaken):
        storage.put("a", b"body")
    assert service.seen == ["PUT", "PUT"]
    assert storage.get("a") == b"body"


def test_function_without_success_reply_still_answers(service, storage):
    """Callers of `put` handle a key that they took themselves. See `marless.functions.serving`."""
    request = make_task(
        InitialiseTask,
        id="run/000000/initialise",
        run="run",
        round=0,
        output="rounds/000000/initialise",
        timeout_s=9.0,
        seed=1,
        spec=registry.spec(EnvTask(name="toy/signal")),
        algorithm="mappo",
        hyperparameters={},
        team=Team(groups=(0, 1)),
    )

    def work(request, blobs):
        return [Output("policies", {"w": np.ones(2)}), Output("learner", {"m": np.zeros(2)})], InitialiseReply()

    service.do("PUT", lost, s3_error("412 Precondition Failed", "PreconditionFailed"), lost)
    answered = msgspec.json.decode(serve(msgspec.json.encode(request), storage, {InitialiseTask: work}), type=Answer)
    assert isinstance(answered, Done)
    assert sorted(answered.objects) == ["learner", "policies"]
    for ref in answered.objects.values():
        codec.verify(ref, storage.get(ref.key))


@pytest.mark.parametrize("damage", [torn, flipped], ids=["torn", "flipped"])
def test_truncated_body_is_read_again(service, storage, damage):
    body = bytes(range(256)) * 1000
    storage.put("a", body)
    service.do("GET", damage, damage)
    assert storage.get("a") == body
    assert service.seen == ["GET"] * 3


def test_a_body_that_stalls_is_read_again(service, storage, prefix, monkeypatch):
    storage.put("a", b"body" * 100_000)
    service.do("GET", stalled)
    monkeypatch.setattr(clouds, "READ_S", 2.0)
    # The fixture's client waits longer. A copy of the cloud makes a new client.
    impatient = S3Storage(dataclasses.replace(service.cloud), BUCKET, prefix)
    assert impatient.get("a") == b"body" * 100_000
    assert service.seen == ["GET"] * 2


def test_always_truncated_body_is_fault(service, storage, prefix, monkeypatch):
    monkeypatch.setattr("marless.infra.aws.backoff.FIRST_S", 0.001)
    storage.put("a", b"body" * 1000)
    service.do("GET", *[torn] * 8)
    assert "it never came whole" in fault(lambda: storage.get("a"))
    assert service.seen == ["GET"] * 8


def test_failed_deletion_is_repeated(service, storage, prefix):
    storage.put("a", b"")
    storage.put("b", b"")
    kept = f"<Error><Key>{prefix}/b</Key><Code>InternalError</Code><Message>x</Message></Error>"
    service.do("POST", answer("200 OK", f"<DeleteResult>{kept}</DeleteResult>".encode()))
    storage.delete(["a", "b"])
    assert service.seen == ["POST", "POST"]
    # The second request names only the keys that the first did not delete.
    assert storage.list("") == ["a"]


def test_what_may_not_be_deleted_is_named(service, storage, prefix):
    kept = "".join(
        f"<Error><Key>{prefix}/{name}</Key><Code>{code}</Code><Message>x</Message></Error>"
        for name, code in (("a", "SlowDown"), ("b", "AccessDenied"))
    )
    service.do("POST", answer("200 OK", f"<DeleteResult>{kept}</DeleteResult>".encode()))
    line = fault(lambda: storage.delete(["a", "b", "c"]))
    assert line.startswith(f"cannot delete s3://{BUCKET}/{prefix}/b and 1 more: access denied")
    assert "s3:DeleteObject" in line
    assert service.seen == ["POST"]


@pytest.mark.parametrize(
    ("status", "name", "words"),
    [
        ("404 Not Found", "NoSuchBucket", "deploy with `marless cloud deploy`"),
        ("400 Bad Request", "ExpiredToken", "the credentials have expired; log in again"),
        ("403 Forbidden", "InvalidAccessKeyId", "check which profile or access key is in use"),
        ("403 Forbidden", "RequestTimeTooSkewed", "the clock of this machine is wrong"),
        ("403 Forbidden", "AccessDenied", "access denied: the credentials in use lack the permission s3:GetObject"),
        ("301 Moved Permanently", "PermanentRedirect", "it is in another region"),
        ("400 Bad Request", "KeyTooLongError", "choose a shorter name for the run"),
        ("405 Method Not Allowed", "MethodNotAllowed", "MethodNotAllowed: said S3"),
    ],
)
def test_refusal_of_s3_is_one_line_with_advice(service, storage, prefix, status, name, words):
    service.do("GET", *[s3_error(status, name)] * 3)
    line = fault(lambda: storage.get("a"))
    assert line.startswith(f"cannot read s3://{BUCKET}/{prefix}/a: ")
    assert words in line


def test_without_permission_nothing_is_said_about_what_exists(service, storage):
    service.do("HEAD", answer("403 Forbidden"))
    assert "lack the permission s3:GetObject" in fault(lambda: storage.persist(["a"]))


def test_an_endpoint_that_nobody_serves_is_named(give_up_after):
    give_up_after(1)
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unheard.getsockname()[1]}"
        storage = S3Storage(Cloud("us-east-1", address, ("a", "b", None)), BUCKET, "run")
        line = fault(lambda: storage.get("a"))
    assert address in line
    assert "cannot be reached; check the network" in line


def test_missing_credentials_are_missed_in_one_line(service, shell, tmp_path):
    shell.unset("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_DEFAULT_REGION")
    nowhere = str(tmp_path / "none")
    shell.export(AWS_CONFIG_FILE=nowhere, AWS_SHARED_CREDENTIALS_FILE=nowhere, AWS_EC2_METADATA_DISABLED="true")
    storage = S3Storage(Cloud("us-east-1", service.address), BUCKET, "run")
    assert "no usable credentials were found" in fault(lambda: storage.get("a"))
    line = fault(lambda: S3Storage(Cloud(profile="nobody"), BUCKET, "run"))
    assert line.startswith(f"cannot open s3://{BUCKET}: ")
    assert "nobody" in line
