"""Secrets become their names in text that leaves the program."""

import json
from urllib.parse import quote

import pytest

from marless.functions.text import redaction
from marless.functions.text.redaction import is_secret, redact, redact_settings

_SECRETS = """AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN GITHUB_PAT DB_CREDENTIALS PGPASSWORD PGPASS MYSQL_PWD NPM_AUTH
SSH_KEY STRIPE_KEY SMTP_PASS SIGNING_KEY GPG_PASSPHRASE SESSION_COOKIE SENTRY_DSN SLACK_WEBHOOK_URL apiKey
task.options.api_key task.options.auth"""
_OTHERS = """PATH PWD OLDPWD SSH_AUTH_SOCK AWS_SHARED_CREDENTIALS_FILE AWS_WEB_IDENTITY_TOKEN_FILE KEYBOARD AUTHOR
TOKENIZERS_PARALLELISM task.options.key algorithm.lr AWS_CREDENTIAL_EXPIRATION SSH_PUBLIC_KEY"""


@pytest.mark.parametrize("name", _SECRETS.split())
def test_a_name_that_tells_a_secret_is_one(name):
    assert is_secret(name)


@pytest.mark.parametrize("name", _OTHERS.split())
def test_a_name_that_only_resembles_one_is_none(name):
    assert not is_secret(name)


# A line break in the middle, as an environment file of Windows and a key in PEM have them.
_BROKEN = "FwoGZXIvYXdz\r\nEBYfake/fake+12=="


@pytest.mark.parametrize(
    "text",
    [
        _BROKEN,
        f"Invalid header value {_BROKEN.encode()!r}",
        " ".join(_BROKEN.split()),
        json.dumps({"token": _BROKEN}),
        f"https://host/?token={quote(_BROKEN.splitlines()[1], safe='')}",
        f"first line {_BROKEN.splitlines()[0]}",
    ],
)
def test_secret_is_found_in_every_form(shell, text):
    shell.export(AWS_SESSION_TOKEN=_BROKEN)
    if "?token=" in text:
        shell.export(AWS_SESSION_TOKEN=_BROKEN.splitlines()[1])
    assert "FwoG" not in redact(text) and "EBYfake" not in redact(text)
    assert "<AWS_SESSION_TOKEN>" in redact(text)


def test_of_two_secrets_the_longer_one_goes_first(shell):
    shell.export(A_TOKEN="abcdefgh")
    shell.export(B_TOKEN="abcdefghijkl")
    assert redact("abcdefghijkl abcdefgh") == "<B_TOKEN> <A_TOKEN>"


def test_a_short_secret_goes_where_it_stands_alone(shell):
    shell.export(SHORT_TOKEN="s3cr3t!")
    assert redact("it is s3cr3t! and 's3cr3t!', no xs3cr3t!") == "it is <SHORT_TOKEN> and '<SHORT_TOKEN>', no xs3cr3t!"


def test_short_secret_is_removed_only_next_to_name(shell):
    shell.export(MYSQL_PWD="root")
    shell.export(DOOR_PIN="1234")
    assert redact("root paid 1234.5 for 1234 rounds") == "root paid 1234.5 for 1234 rounds"
    assert redact("MYSQL_PWD=root") == "MYSQL_PWD=<redacted>"
    assert redact(repr({"DOOR_PIN": "1234"})) == "{'DOOR_PIN': '<redacted>'}"


def test_addresses_lose_their_credentials():
    assert redact("http://user:word@host/x") == "http://<redacted>@host/x"
    assert redact("https://ghp_0123456789abcdef@host/x") == "https://<redacted>@host/x"
    assert redact("https://b/k?X-Amz-Credential=AKIA/2026&X-Amz-Signature=0af") == (
        "https://b/k?X-Amz-Credential=<redacted>&X-Amz-Signature=<redacted>"
    )
    assert redact("git@host:repo s3://bucket/key a@b.c") == "git@host:repo s3://bucket/key a@b.c"


def test_what_was_learned_is_a_secret_too():
    redaction.learn("task.options.api_key", "opensesame")
    assert redact("401: opensesame") == "401: <task.options.api_key>"


def test_published_settings_keep_everything_but_secrets():
    given = {"horizon": 25, "api_key": "opensesame", "inner": {"password": "x", "name": "n"}, "has_key": True}
    assert redact_settings(given) == {
        "horizon": 25,
        "api_key": "<api_key>",
        "inner": {"password": "<password>", "name": "n"},
        "has_key": True,
    }
