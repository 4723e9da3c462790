"""Messages for invalid values: the valid type or range, an example, and the key's meaning."""

from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

import msgspec

from marless.coordinator.config.config_keys import (
    NAME,
    NAMED_TABLES,
    OPTIONS,
    general,
    key_types,
    particular,
    valid_keys,
)
from marless.coordinator.config.nested_tables import flatten
from marless.coordinator.config.schema import DEFAULT_ROUNDS, RunConfig
from marless.coordinator.config.toml_dump import toml_value
from marless.functions.algorithms import registry as algorithms
from marless.functions.encoding import Mismatch, mismatch

# A longer meaning, such as the list of all rules, is left out, and so is the rest of a long value.
_LONGEST_MEANING = 80
_LONGEST_VALUE = 40
# Examples of keys that have no useful default.
_EXAMPLES: Mapping[str, Any] = {
    "actors.rollout_length": 25,
    "algorithm.batch_size": 32,
    "algorithm.critic_lr": 1e-3,
    "algorithm.gamma": 0.99,
    "algorithm.huber_delta": 1.0,
    "algorithm.lr": 1e-3,
    "algorithm.mixer": "my_mixers:Weighted",
    "algorithm.noise_end": 0.05,
    "algorithm.noise_start": 0.5,
    "algorithm.num_minibatches": 8,
    "algorithm.sequence_length": 25,
    "algorithm.target_update_interval": 200,
    "base.model": "models/base",
    "base.policies": "runs/pretrained",
    "evaluation.episodes": 320,
    "evaluation.every_steps": 10_000,
    "evaluation.final_episodes": 3200,
    "evaluation.options": {"horizon": 50},
    "evaluation.side": 0,
    "league.rule": "prioritised",
    "league.script": "scripted",
    "log.to": ["csv"],
    "offline.dataset": "dataset",
    "opponents.side": 0,
    "preset": "good",
    "resources.NAME.command": "stockfish",
    "resources.NAME.http": "https://judge.example/grade",
    "resources.NAME.rate": "600/min",
    "resources.NAME.serve": "my_judge:grade",
    "resources.NAME.until": "bestmove",
    "resources.NAME.ready": "readyok",
    "resources.NAME.ping": "isready",
    "scaling.min_rollouts": 1,
    "scaling.priced_as": "fused",
    "sharing.groups": [["agent_0", "agent_1"]],
    "sharing.identity": True,
    "sharing.rule": "all",
    "stop.dollars": 0.5,
    "stop.env_steps": 1_000_000,
    "stop.return": -36.0,
    "stop.rounds": DEFAULT_ROUNDS,
    "stop.seconds": 60.0,
    "task.agents": 3,
    "task.judge": "judge",
    "task.options": {"horizon": 25},
}


def readable(error: msgspec.ValidationError, algorithm: str, document: Mapping[str, Any], typed: bool) -> str:
    """Return a document's fault in the user's words, with the key first. `typed`: on a command line, not in a file."""
    fault = _located(error, document)
    key, at = fault.place.partition("[")[0], fault.place
    if not key:
        return str(fault)
    if key in OPTIONS and at != key:
        return _of_option(key, _value(document, key), fault.need)
    value = _value(document, key)
    types = key_types(algorithm)
    if general(key) not in types and not fault.need:
        return f"{key}: {fault.reason}"  # of values that exclude each other
    if general(key) not in types:
        below = particular(_setting_below(general(key), value, types, algorithm, typed), key)
        return f"{key} is a table, not a value; type {below}"
    need = fault.need or ", ".join(choices(general(key), algorithm))
    need = need if fault.need or not need else f"one of {need}"
    means = valid_keys(algorithm)[general(key)]
    meaning = f" ({means})" if len(means) <= _LONGEST_MEANING else ""
    if not need:
        return f"{key}: {fault.reason}{meaning}"
    item = value[int(at.rpartition("[")[2].rstrip("]"))] if at != key and at.count("[") == 1 else value
    such_as = _setting(key, example(general(key), algorithm), typed)
    return f"{key}: {_text_of(item)} is not {need}, such as {such_as}{meaning}"


def _located(error: msgspec.ValidationError, document: Mapping[str, Any]) -> Mismatch:
    """Find the place where a document is invalid, and the reason. msgspec does not name the keys of a dict."""
    fault = mismatch(error)
    table, inside, _ = fault.place.partition("[...]")
    for name, value in document[table].items() if inside and table in NAMED_TABLES else ():
        try:
            msgspec.convert(value, NAMED_TABLES[table])
        except msgspec.ValidationError as inner_error:
            inner = mismatch(inner_error)
            return inner._replace(place=".".join(filter(None, (table, name, inner.place))))
    return fault


def example(key: str, algorithm: str) -> Any:
    """Return a value that the key may have: its default, or another example."""
    if key in _EXAMPLES:
        return _EXAMPLES[key]
    table, _, field = key.partition(f".{NAME}.")
    if field:
        return next(item.default for item in msgspec.structs.fields(NAMED_TABLES[table]) if item.encode_name == field)
    defaults = flatten(msgspec.to_builtins(RunConfig(algorithm=algorithms.algorithm(algorithm).config())))
    return defaults.get(key)


def example_setting(key: str, algorithm: str) -> str:
    """A setting as it is typed in a shell."""
    return _setting(key, example(key, algorithm), typed=True)


def _of_option(table: str, options: Mapping[str, Any], need: str) -> str:
    """msgspec does not name the keys of a dict. The value may be a secret."""
    name = next(name for name, value in options.items() if not isinstance(value, str | int | float))
    return f"{table}.{name}: it is not {need} (a keyword argument of the environment)"


def _setting_below(table: str, value: Any, types: Mapping[str, Any], algorithm: str, typed: bool) -> str:
    """Return a setting for a value that was given to a whole table: its first key that takes it, or an example."""
    keys = [key for key in types if key.startswith(f"{table}.")]
    for key in keys if not isinstance(value, bool) else ():
        try:
            msgspec.convert(value, types[key])
        except msgspec.ValidationError:
            continue
        return _setting(key, value, typed)
    return _setting(keys[0], example(keys[0], algorithm), typed)


def _value(document: Mapping[str, Any], key: str) -> Any:
    value: Any = document
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def choices(key: str, algorithm: str) -> list[str]:
    """Return all values of a key that has a few, as they are typed, or an empty list."""
    parts = _parts(key_types(algorithm)[key])
    literals = [str(choice) for part in parts if get_origin(part) is Literal for choice in get_args(part)]
    return [*literals, *(["true", "false"] if bool in parts else [])]


def _parts(annotation: Any) -> list[Any]:
    if get_origin(annotation) is Literal or not get_args(annotation):
        return [annotation]
    return [part for member in get_args(annotation) for part in _parts(member)]


def _setting(key: str, value: Any, typed: bool) -> str:
    """Return the setting as typed in a shell or written in a file. For a table, use its first entry."""
    if isinstance(value, Mapping):
        name, entry = next(iter(value.items()))
        return _setting(f"{key}.{name}", entry, typed)
    if not typed:
        return f"{key} = {toml_value(value)}"
    if isinstance(value, list | tuple) and not any(isinstance(item, list | tuple) for item in value):
        return f"{key}={','.join(map(str, value))}"
    return f"{key}={value if isinstance(value, str) else _quoted(toml_value(value))}"


def _quoted(text: str) -> str:
    return f"'{text}'" if '"' in text else text


def _text_of(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else "a table" if isinstance(value, Mapping) else toml_value(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."
