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
def test_a_text_that_can_be_guessed_is_refused_without_being_shown(text):
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


def test_a_token_that_a_driver_writes_is_the_one_that_is_read(tmp_path):
    path = tmp_path / "folder" / "token"
    make_token(path)
    made = path.read_text().strip()
    make_token(path)  # it stays
    assert read_token(path) == made.encode()


@pytest.mark.parametrize("before", ["", "\ufeff"])
@pytest.mark.parametrize("after", ["", "\n", "\r\n"])
def test_how_an_editor_stores_a_token_does_not_matter(before, after, tmp_path):
    text = secrets.token_urlsafe(32)
    (tmp_path / "token").write_bytes(f"{before}{text}{after}".encode())
    assert read_token(tmp_path / "token") == text.encode()


def test_a_token_that_is_no_text_is_one_line(tmp_path):
    (tmp_path / "token").write_bytes("a token of an editor".encode("utf-16"))
    with pytest.raises(DialInError, match="it is no text"):
        read_token(tmp_path / "token")
