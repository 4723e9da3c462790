"""Tokens of drivers and workers: which texts can be guessed, and how files hold them."""

import secrets

import pytest

from marless_cluster.remote.faults import DialInError
from marless_cluster.remote.tokens import make_token, read_token, token_in


@pytest.mark.parametrize(
    "text",
    [
        "correct horse battery",
        "correct horse battery staple",
        "password12345678",
        "PasswordPassword",
        "1234567890123456",
        "a" * 200,
        "ab " * 50,
        "hunter2 hunter2 hunter2",
        "0" * 64,
        "_" * 64,
    ],
)
def test_guessable_text_is_refused_and_not_shown(text):
    with pytest.raises(DialInError) as refusal:
        token_in(text, "MARLESS_TOKEN")
    assert "can be guessed" in str(refusal.value) and text not in str(refusal.value)


@pytest.mark.parametrize(
    "make", [lambda: secrets.token_urlsafe(32), lambda: secrets.token_hex(16), lambda: secrets.token_hex(32)]
)
def test_random_texts_are_taken(make):
    for _ in range(200):
        text = make()
        assert token_in(f" {text}\n", "MARLESS_TOKEN") == text.encode()


def test_token_written_by_driver_can_be_read(tmp_path):
    path = tmp_path / "folder" / "token"
    make_token(path)
    made = path.read_text().strip()
    make_token(path)  # it stays
    assert read_token(path) == made.encode()


@pytest.mark.parametrize("before", ["", "\ufeff"])
@pytest.mark.parametrize("after", ["", "\n", "\r\n"])
def test_token_is_independent_of_editor_format(before, after, tmp_path):
    text = secrets.token_urlsafe(32)
    (tmp_path / "token").write_bytes(f"{before}{text}{after}".encode())
    assert read_token(tmp_path / "token") == text.encode()


def test_token_that_is_no_text_is_one_line(tmp_path):
    (tmp_path / "token").write_bytes("a token of an editor".encode("utf-16"))
    with pytest.raises(DialInError, match="it is no text"):
        read_token(tmp_path / "token")
