"""One line names the fault that keeps a machine from its AWS account, for any origin."""

import datetime
import os
import ssl
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from marless.cloud.accounts import caller, region_of
from marless.coordinator.errors import UserError, one_line
from marless.functions.errors import StorageFault
from marless.functions.text import redaction
from marless.infra.aws.clients import Cloud
from marless.infra.aws.error_messages import storage_errors

REGION = "eu-west-1"
NOWHERE = "http://127.0.0.1:9"
TOKEN = "FwoGZXIvYXdzEBYfakefake1234567890"


def has_terminal():
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError:
        return False
    return True


@pytest.fixture
def machine(shell, tmp_path):
    """A machine with keys in its environment, no metadata service, and a configuration that the test writes."""
    shell.unset("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL")
    shell.export(
        AWS_ACCESS_KEY_ID="AKIAIOSFODNN7EXAMPLE",
        AWS_SECRET_ACCESS_KEY="wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY",
        AWS_EC2_METADATA_DISABLED="true",
        AWS_CONFIG_FILE=str(tmp_path / "config"),
        AWS_SHARED_CREDENTIALS_FILE=str(tmp_path / "none"),
        NO_PROXY="",
    )

    def configure(profile="", **environment):
        (tmp_path / "config").write_text(f"[default]\n{profile}\n", encoding="utf-8")
        shell.export(**environment)
        if profile:
            shell.unset("AWS_ACCESS_KEY_ID")

    return configure


def lines():
    with pytest.raises(UserError) as asked:
        caller(Cloud(REGION))
    with pytest.raises(StorageFault) as stored, storage_errors("read", "table t"):
        Cloud(REGION).client("dynamodb", retries={"total_max_attempts": 1}).describe_table(TableName="t")
    return one_line(asked.value), one_line(stored.value)


def assert_both_say(*words):
    for line in lines():
        for word in words:
            assert word in line
        assert "Traceback" not in line and "\n" not in line


def test_a_credential_process_that_prints_no_json(machine, tmp_path):
    helper = tmp_path / "helper"
    helper.write_text("#!/bin/sh\necho please log in\n", encoding="utf-8")
    helper.chmod(0o755)
    machine(f"credential_process = {helper}")
    assert_both_say("credential_process", "no JSON")


def test_a_credential_process_that_is_not_there(machine):
    machine("credential_process = /nope/login")
    assert_both_say("credential_process", "/nope/login", "No such file")


def test_a_credential_process_that_fails_tells_why(machine, tmp_path):
    helper = tmp_path / "helper"
    helper.write_text("#!/bin/sh\necho token has expired >&2\nexit 3\n", encoding="utf-8")
    helper.chmod(0o755)
    machine(f"credential_process = {helper}")
    assert_both_say("token has expired")


def test_missing_web_identity_file_is_named(machine, shell):
    machine("", AWS_WEB_IDENTITY_TOKEN_FILE="/nope/token", AWS_ROLE_ARN="arn:aws:iam::123456789012:role/x")
    shell.unset("AWS_ACCESS_KEY_ID")
    assert_both_say("/nope/token", "No such file")


@pytest.mark.skipif(has_terminal(), reason="there is a terminal")
def test_a_role_with_mfa_and_no_terminal(machine, capfd):
    keys = "[profile d]\naws_access_key_id = x\naws_secret_access_key = y"
    role = "role_arn = arn:aws:iam::123456789012:role/x\nsource_profile = d\nmfa_serial = arn:aws:iam::1:mfa/x"
    machine(f"{role}\n{keys}")
    assert_both_say("mfa_serial", "terminal")
    assert capfd.readouterr() == ("", "")


def test_an_address_without_a_scheme(machine):
    machine(AWS_ENDPOINT_URL="localhost:4566")
    assert_both_say("AWS_ENDPOINT_URL", "localhost:4566", "https://")


def test_session_token_with_line_break_is_named_hidden(machine):
    machine(AWS_SESSION_TOKEN=f"{TOKEN}\r", AWS_ENDPOINT_URL=NOWHERE)
    assert_both_say("AWS_SESSION_TOKEN", "line break")
    assert not any(TOKEN in line for line in lines())


def test_credentials_that_a_program_gave_are_secrets_too(machine, tmp_path):
    helper = tmp_path / "helper"
    document = f'{{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "s", "SessionToken": "{TOKEN}\\n"}}'
    helper.write_text(f"#!/bin/sh\ncat <<'E'\n{document}\nE\n", encoding="utf-8")
    helper.chmod(0o755)
    machine(f"credential_process = {helper}", AWS_ENDPOINT_URL=NOWHERE)
    assert_both_say("cannot be sent")
    assert redaction.redact(f"Invalid header value b'{TOKEN}\\n'") == "Invalid header value b'<AWS_SESSION_TOKEN>'"


def test_a_bundle_of_certificates_that_is_not_there(machine):
    machine(AWS_CA_BUNDLE="/nope.pem", AWS_ENDPOINT_URL="https://127.0.0.1:9")
    assert_both_say("AWS_CA_BUNDLE", "/nope.pem")


def test_a_proxy_that_does_not_answer(machine):
    machine(HTTPS_PROXY=NOWHERE)
    assert_both_say("proxy", NOWHERE, "Connection refused")


def test_nobody_at_the_address(machine):
    machine(AWS_ENDPOINT_URL=NOWHERE)
    assert_both_say(NOWHERE, "cannot be reached", "check the network")


def test_a_certificate_of_nobody_known(machine, certified):
    machine(AWS_ENDPOINT_URL=certified)
    assert_both_say(certified, "certificate is not trusted", "AWS_CA_BUNDLE")


def test_settings_with_values_that_are_none(machine):
    machine(AWS_STS_REGIONAL_ENDPOINTS="everywhere")
    with pytest.raises(UserError, match="AWS_STS_REGIONAL_ENDPOINTS"):
        caller(Cloud(REGION))


def test_a_mode_of_defaults_that_is_none(machine):
    machine(AWS_DEFAULTS_MODE="fast")
    assert_both_say("AWS_DEFAULTS_MODE")


def test_a_profile_that_is_not_there(machine):
    machine(AWS_PROFILE="nobody")
    assert_both_say("nobody", "choose another profile")


def test_a_configuration_of_garbage_is_named(machine, tmp_path):
    machine()
    (tmp_path / "config").write_bytes(b"\x00\xff no [section\n")
    assert_both_say(str(tmp_path / "config"))
    with pytest.raises(UserError, match="config"):
        region_of(None)


def test_emulated_clients_read_nothing_of_the_users_configuration(machine):
    machine(AWS_STS_REGIONAL_ENDPOINTS="everywhere", AWS_DEFAULTS_MODE="fast", AWS_PROFILE="nobody")
    Cloud(REGION, endpoint=NOWHERE, credentials=("key", "secret", None)).client("sts")


@pytest.mark.parametrize(
    ("variables", "region"),
    [
        ({"AWS_REGION": "eu-west-1"}, "eu-west-1"),
        ({"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "us-west-2"}, "us-west-2"),
        ({}, "sa-east-1"),
    ],
)
def test_region_comes_from_environment_or_configuration(machine, variables, region):
    machine("region = sa-east-1", **variables)
    assert region_of(None) == region
    assert region_of("us-east-1") == "us-east-1"


@pytest.fixture
def certified(tmp_path):
    """The address of a server with a self-signed certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_certificate(tmp_path))
    server = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.handle_error = lambda *_: None
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"https://localhost:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def _certificate(folder):
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.datetime.now(datetime.UTC)
    built = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1))
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    signed = built.add_extension(names, critical=True).sign(key, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "own.pem"
    path.write_bytes(private + signed.public_bytes(serialization.Encoding.PEM))
    return path
