"""Removes secrets that this process knows from texts that leave it: messages, log lines, tracebacks and files.

It knows the variables of its environment, and the arguments of `learn`: credentials that were fetched, and settings of
a run. An exception of an environment or a plug-in may hold anything, `os.environ` included.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

_SECRET = re.compile(
    r"SECRET|TOKEN(?!I[SZ])|PASSWORD|PASSWD|PASSPHRASE|PASSCODE|CREDENTIAL|PRIVATE_?KEY|API_?KEY|ACCESS_?KEY|SSH_?KEY"
    r"|BEARER|WEBHOOK|PGPASS|(?:^|[_.-])(?:PAT|PASS|AUTH|AUTHORIZATION|CREDS?|COOKIES?|JWT|DSN|PIN)$|[_-](?:PWD|KEY)$",
    re.IGNORECASE,
)
# Names that contain such a word but tell only a place or an expiry.
_ABOUT_A_SECRET = re.compile(r"_(?:FILE|PATH|DIR|SOCK|EXPIRATION|EXPIRY|TTL)$|PGPASSFILE$|PUBLIC_KEY$", re.IGNORECASE)
# Shorter values occur in texts by chance, inside of words and numbers above all.
_LEAST = 8
# Of these, the ones from here on are removed where they stand alone, unless they are a word or a number.
_LEAST_ALONE = 4
_WORD_OR_NUMBER = re.compile(r"[A-Za-z]+|[\d.,:+-]+")
# In an address: the name and password, or a key in their place, and its signature.
_IN_ADDRESS = re.compile(
    r"(?<=://)[^/\s@]+:[^/\s@]+(?=@)|(?<=https://)[^/\s@]{16,}(?=@)|(?<=http://)[^/\s@]{16,}(?=@)"
    r"|(?<=X-Amz-Signature=)\w+|(?<=X-Amz-Credential=)[^&\s]+|(?<=X-Amz-Security-Token=)[^&\s]+"
)
_NOTHING = re.compile(r"(?!)")

_learned: dict[str, str] = {}


@lru_cache(maxsize=4096)
def is_secret(name: str) -> bool:
    """Return whether a variable or a setting has the name of a secret."""
    return _SECRET.search(name) is not None and _ABOUT_A_SECRET.search(name) is None


def learn(name: str, value: str) -> None:
    """Makes `redact` write `name` where a text holds `value`, from now on."""
    _learned[name] = value


def redact(text: str) -> str:
    """`text` with each secret replaced by its name."""
    return redactor()(text)


def redactor() -> Callable[[str], str]:
    """`redact` for many texts at once."""
    here = ((name, os.environ.get(name, "")) for name in os.environ if is_secret(name))
    return _replacing((*here, *_learned.items()))


def redact_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that may be given away: texts by `redact`, and the names of secrets in place of their values."""
    return {name: _redact_value(name, value) for name, value in values.items()}


def placeholder(name: str) -> str:
    """Return the replacement of a secret's value."""
    return f"<{name}>"


def _redact_value(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return redact_settings(value)
    if is_secret(name) and isinstance(value, str | bytes | list | tuple):
        return placeholder(name)
    if isinstance(value, list | tuple):
        return [_redact_value("", item) for item in value]
    return redact(value) if isinstance(value, str) else value


@lru_cache(maxsize=8)
def _replacing(secrets: tuple[tuple[str, str], ...]) -> Callable[[str], str]:
    """Return a function that replaces the secrets, the longest first, because one may be a part of another."""
    name_by_form: dict[str, str] = {}
    alone: dict[str, str] = {}
    patterns: list[str] = []
    for name, value in secrets:
        for form in _written_forms(value):
            if len(form) >= _LEAST:
                name_by_form.setdefault(form, name)
            elif len(form) >= _LEAST_ALONE and not _WORD_OR_NUMBER.fullmatch(form):
                alone.setdefault(form, name)
        if 0 < len(value) < _LEAST:
            # As a listing of the environment has it: NAME=value, 'NAME': 'value'.
            patterns.append(rf"(?<={re.escape(name)})(['\"]?\s*[=:]\s*['\"]?){re.escape(value)}(?!\w)")
    forms = name_by_form | alone
    longest = sorted(forms, key=len, reverse=True)
    anywhere = [re.escape(form) if form in name_by_form else rf"(?<!\w){re.escape(form)}(?!\w)" for form in longest]
    pattern = re.compile("|".join(anywhere)) if anywhere else _NOTHING
    listing = re.compile("|".join(patterns)) if patterns else _NOTHING

    def replace(text: str) -> str:
        text = pattern.sub(lambda match: placeholder(forms[match[0]]), text)
        text = listing.sub(lambda match: next(filter(None, match.groups()), "=") + "<redacted>", text)
        return _IN_ADDRESS.sub("<redacted>", text)

    return replace


def _written_forms(value: str) -> set[str]:
    """Return the forms of a value in texts. These are itself, its spelling by Python, JSON and addresses, its line
    breaks as spaces, and each line."""
    forms = {value, value.strip(), " ".join(value.split())}
    forms |= {repr(value)[1:-1], json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    forms |= {quote(value, safe=""), quote(value), quote_plus(value)} if value.isprintable() else set()
    return forms | {line.strip() for line in value.splitlines()}
