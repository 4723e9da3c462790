"""Suggest the key that the user probably meant: first by meaning, then by spelling."""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from marless.coordinator.config.config_keys import OPTIONS, general, is_option, key_types, particular, valid_keys
from marless.coordinator.config.foreign_names import COUNTERPARTS, Counterpart
from marless.functions.algorithms import registry as algorithms
from marless.functions.errors import BadRequest, MissingExtra

# A longer meaning, such as the list of all rules, is left out.
_LONGEST_MEANING = 80
_ALGORITHM_KEY = re.compile(r"algorithm\.[a-z_]+")
# How alike spellings are, from 0 to 1: `lerning_rate` is no `engine`.
_ALIKE = 0.62
# Whole keys of one table begin alike.
_ALMOST_EQUAL = 0.9


def unknown_key(document: Mapping[str, Any], algorithm: str) -> str:
    """Return a message with the first unknown key and a remedy, or '' if all keys exist."""
    keys = key_types(algorithm)
    for key, value in _flatten(document, keys):
        if general(key) not in keys and not is_option(key):
            return particular(answer(f"there is no key {key}", general(key), algorithm, value), key)
    return ""


def answer(problem: str, key: str, algorithm: str, value: Any = None) -> str:
    """Return `problem` with the right replacement of `key`, which does not exist."""
    keys = valid_keys(algorithm)
    word = key.rpartition(".")[2].replace("-", "_").lower()
    algorithm_key, counterpart = f"algorithm.{word}", _counterpart(key, word)
    same_word = [name for name in keys if name.endswith(f".{word}")]
    if algorithm_key in keys and key not in COUNTERPARTS:
        return f"{problem}; {_meant(algorithm_key if '.' in key else _listed(same_word, 'or'), keys)}"
    if counterpart and not counterpart.here:
        return f"{problem}, nor anything like it: {counterpart.note}{_lacking(counterpart.note, keys, algorithm)}"
    if counterpart and (here := _of_algorithm(counterpart, keys)):
        note = counterpart.note if here == counterpart.here[-1] else ""
        return f"{problem}; {_option(here, value) if here.startswith('--') else _meant(here, keys, note)}"
    others_key = counterpart.here[0].partition("=")[0] if counterpart else algorithm_key
    if owners := _owners(others_key):
        start = "" if key == others_key else f"{problem}; "
        return f"{start}{others_key} is a key of {owners}, not of {algorithm}"
    tables = [table for table in _tables_of(keys) if not key.startswith(f"{table}.")]
    nearest = nearest_key(key, same_word or [*keys, *tables])
    if same_word:
        return f"{problem}; {_meant(nearest if '.' in key and nearest else _listed(same_word, 'or'), keys)}"
    return f"{problem}; did you mean {nearest}?" if nearest else f"{problem}; `marless config --all` lists all keys"


def nearest_key(key: str, names: Collection[str]) -> str:
    """Return the name with the spelling most like the key, or ''. Names of the key's own table go first."""
    table, _, word = key.rpartition(".")
    words = {name.rpartition(".")[2]: name for name in reversed([*names]) if table in ("", name.rpartition(".")[0])}
    if alike := difflib.get_close_matches(word, words, n=1, cutoff=_ALIKE):
        return words[alike[0]]
    return "".join(difflib.get_close_matches(key, names, n=1, cutoff=_ALMOST_EQUAL if table and words else _ALIKE))


def _counterpart(key: str, word: str) -> Counterpart | None:
    """The entry of the whole key, of a table that holds an environment's options, or of the last word."""
    table, _, option = key.partition(".")
    options = COUNTERPARTS.get(table)
    if option and key not in COUNTERPARTS and options and options.here == ("task.options",):
        return Counterpart((f"task.options.{option}",), options.note)
    return COUNTERPARTS.get(key) or COUNTERPARTS.get(word)


def _of_algorithm(counterpart: Counterpart, keys: Collection[str]) -> str:
    """Return the first that exists, or '': an option, an option of the task, or a key of the algorithm."""
    outside = ("--", "task.options")
    return next((key for key in counterpart.here if key.startswith(outside) or key.partition("=")[0] in keys), "")


def _option(option: str, value: Any) -> str:
    is_shown = isinstance(value, str | int | float) and not isinstance(value, bool)
    return f"it is an option of the command: {option}{f' {value}' if is_shown else ''}"


def _meant(here: str, keys: Mapping[str, str], note: str = "") -> str:
    meaning = keys.get(here, "").partition(". ")[0]
    note = note or (meaning if len(meaning) <= _LONGEST_MEANING else "")
    return f"did you mean {here}?" + (f" ({note})" if note else "")


def _lacking(note: str, keys: Collection[str], algorithm: str) -> str:
    # A note may name keys that the algorithm lacks.
    named_keys = _ALGORITHM_KEY.findall(note)
    if not named_keys or any(key in keys for key in named_keys):
        return ""
    return f" ({algorithm} has no {_listed(named_keys, 'and no')})"


def _owners(key: str) -> str:
    owners: list[str] = []
    for name in algorithms.names():
        # A plug-in that fails to load is unrelated to this configuration.
        with suppress(BadRequest, MissingExtra):
            owners += [name] if key in valid_keys(name) else []
    return _listed(owners, "and")


def _listed(names: list[str], last: str) -> str:
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _tables_of(keys: Iterable[str]) -> set[str]:
    return {".".join(key.split(".")[:depth]) for key in keys for depth in range(1, key.count(".") + 1)}


def _flatten(document: Mapping[str, Any], keys: Collection[str]) -> Iterable[tuple[str, Any]]:
    """Yield a document's dotted keys and values, except scalars in place of tables, which the type check refuses."""
    tables = _tables_of(keys)

    def below(table: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, Any]]:
        for name, value in table.items():
            key = f"{prefix}{name}"
            if isinstance(value, Mapping) and value and (general(key) not in keys or key in OPTIONS):
                yield from below(value, f"{key}.")
            elif general(key) not in tables:
                yield key, value

    return below(document, "")
