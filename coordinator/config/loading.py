"""Reads configurations: a TOML file and `key=value` pairs with dotted keys.

Every error in them becomes a `ConfigError` of one line: the key, the fault, and a remedy.
"""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from marless.coordinator.config import defaults
from marless.coordinator.config.checks import fault
from marless.coordinator.config.config_keys import is_option, key_types
from marless.coordinator.config.nested_tables import flatten, merge, nest
from marless.coordinator.config.renamed_keys import new_name, with_new_names
from marless.coordinator.config.schema import DEFAULT_ALGORITHM, ConfigError, Pretrained, RunConfig, algorithm_name
from marless.coordinator.config.toml_parsing import MOST_BYTES, MOST_PARTS, parse_toml
from marless.coordinator.config.unknown_keys import unknown_key
from marless.coordinator.config.value_faults import readable
from marless.coordinator.config.value_forms import in_plain_forms
from marless.coordinator.file_reading import UnreadableFile, read_text
from marless.functions.algorithms import registry as algorithms
from marless.functions.encoding import Undecodable
from marless.functions.errors import BadRequest, MissingExtra
from marless.functions.plug_in_registry import is_reference
from marless.functions.text.redaction import is_secret, learn, placeholder

COMMAND_LINE = "command line"
_FILE = "file "
_TYPED = f"the {COMMAND_LINE}"
# Tables and lists that the file of a study has, and a run's file does not have.
STUDY_TABLES = ("base", "vary", "setting", "halving", "rules", "tasks")
# Keys that may be given without their table if the value is a scalar: ``task = "mpe/simple_spread"``.
SHORT_FORMS = {
    "task": "task.name",
    "algorithm": "algorithm.name",
    "network": "algorithm.network",
    "rounds": "stop.rounds",
}
# Tables of every run. Shells take their keys without the table if only one of these tables has the key.
_COMMON_TABLES = ("task.", "algorithm.", "actors.", "evaluation.", "stop.", "log.")
# Python's spelling of words that TOML writes in small letters.
_PYTHON_VALUES = {"True": True, "False": False}
# Numbers with no digit before or after their point, such as ``-.3`` and ``1.``, which TOML refuses.
_BARE_POINT = re.compile(r"[+-]?(\d+\.|\.\d+)([eE][+-]?\d+)?")


def load(path: Path | None, overrides: Iterable[str] = ()) -> RunConfig:
    """Return the configuration of a TOML file (or the defaults) with `key=value` overrides. Raises `ConfigError`."""
    return _complete(*_document(path, overrides)[:2])[0]


def load_with_origins(path: Path | None, overrides: Iterable[str]) -> tuple[RunConfig, dict[str, str]]:
    """Return the configuration of a new run, and by dotted key the origin of each value that is no class default.

    An origin is the command line, the file, or a layer of `defaults`. Raises `ConfigError`."""
    document, source, settings = _document(path, overrides)
    document, measured = defaults.fill_default_run(document)
    config, origins = _complete(document, source)
    settings.pop("preset", None)  # it has become stop.rounds
    return config, {**settings, **measured, **origins}


def _document(path: Path | None, overrides: Iterable[str]) -> tuple[dict[str, Any], str, dict[str, str]]:
    # The document with the overrides, its source in words, and by dotted key the layer that set it.
    document = {} if path is None else with_new_names(read_toml(path))
    if table := next((table for table in STUDY_TABLES if table in document and not _is_of_run(table, document)), ""):
        raise ConfigError(f"{path} is a study, as it has `{table}`: marless study {shlex.quote(str(path))}")
    from_pairs = flatten(override(document, overrides))
    settings = {key: COMMAND_LINE if key in from_pairs else f"{_FILE}{path}" for key in flatten(document)}
    return document, _TYPED if path is None else str(path), settings


def _is_of_run(table: str, document: Mapping[str, Any]) -> bool:
    """Return whether a run may have the table. A study's `base` has tables of a run instead of keys of `Pretrained`."""
    keys = document[table].keys() if isinstance(document[table], Mapping) else ()
    return table == "base" and {*keys} <= {*Pretrained.__struct_fields__}


def explicit_keys(origins: Mapping[str, str]) -> list[str]:
    """Return the keys among `load_with_origins`'s that a user set."""
    return [key for key, origin in origins.items() if origin == COMMAND_LINE or origin.startswith(_FILE)]


def algorithm_typed(arguments: Iterable[str]) -> str:
    """Return the algorithm that a command line names, or the default algorithm. Other settings are not read."""
    names = (text.removeprefix("algorithm.name=").removeprefix("algorithm=") for text in arguments)
    return next((name for name in names if name in algorithms.ALGORITHMS), DEFAULT_ALGORITHM)


def convert(document: Mapping[str, Any], source: str) -> RunConfig:
    """Return a parsed document as a configuration. Raises `ConfigError` naming the key in `source`."""
    return _complete(document, source)[0]


def _complete(document: Mapping[str, Any], source: str) -> tuple[RunConfig, dict[str, str]]:
    """The configuration of a document, and by dotted key the layer of `defaults` that set it."""
    document = with_new_names(spelled_out(document))
    name = algorithm_name(document)
    try:
        algorithms.algorithm(name)
    except (BadRequest, MissingExtra) as error:
        raise ConfigError(f"{source}: algorithm.name: {error}") from error
    if problem := unknown_key(document, name):
        raise ConfigError(f"{source}: {problem}")
    try:
        document, family = defaults.fill_family(in_plain_forms(document, key_types(name)), key_types(name))
        config = msgspec.convert(_add_default_names(document), RunConfig)
        config, derivations = defaults.derive(config, flatten(document).keys())
    except BadRequest as error:
        raise ConfigError(f"{source}: task.name: {error}") from error
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source}: {readable(error, name, document, source == _TYPED)}") from error
    if problem := fault(config):
        raise ConfigError(f"{source}: {problem}")
    _learn_secrets(config, source)
    return config, {**family, **derivations}


def _learn_secrets(config: RunConfig, source: str) -> None:
    """Register secret options, so that all later output shows their names in place of their values."""
    for key, value in flatten(msgspec.to_builtins(config)).items():
        name = key.rpartition(".")[2]
        if is_option(key) and is_secret(name) and isinstance(value, str):
            if value in (placeholder(name), placeholder(key)):
                raise ConfigError(f"{source}: {key} has its name for a value, as in a file that was given away; set it")
            learn(key, value)


def _add_default_names(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with the default name in the tables `task` and `algorithm` if they have none."""
    named_tables = dict(document)
    for table, default in (("task", RunConfig().task.name), ("algorithm", DEFAULT_ALGORITHM)):
        if isinstance(named_tables.get(table), Mapping):
            named_tables[table] = {"name": default, **named_tables[table]}
    return named_tables


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a file. Raises `ConfigError`."""
    try:
        return spelled_out(parse_toml(read_text(path, MOST_BYTES)))
    except FileNotFoundError as error:
        raise ConfigError(f"there is no file {path}; give a TOML file, or key=value pairs") from error
    except UnreadableFile as error:
        raise ConfigError(str(error)) from error
    except Undecodable as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error


def spelled_out(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with the full keys in place of `SHORT_FORMS`."""
    short = {
        SHORT_FORMS[key]: value
        for key, value in document.items()
        if key in SHORT_FORMS and not isinstance(value, Mapping)
    }
    rest = {key: value for key, value in document.items() if SHORT_FORMS.get(key) not in short}
    return _with_judge(merge(rest, nest(short)))


def _with_judge(document: dict[str, Any]) -> dict[str, Any]:
    task = document.get("task")
    judge = task.get("judge", "") if isinstance(task, Mapping) else ""
    if not is_reference(judge):
        return document
    name = judge.rpartition(":")[2].lower()
    return merge(document, {"task": {"judge": name}, "resources": {name: {"serve": judge}}})


def override(document: dict[str, Any], texts: Iterable[str]) -> dict[str, Any]:
    """Set keys of `document` from `key=value`, and return the values by dotted key. Raises `ConfigError`.

    A value is TOML, a number such as ``.5``, or a string. `_short_keys` may lack their table: ``lr=3e-4``.
    """
    texts, values = [*texts], dict[str, Any]()
    names = [text.partition("=")[2] for text in texts if text.startswith(("algorithm=", "algorithm.name="))]
    short = _short_keys([algorithm_name(document), *names][-1])
    for text in texts:
        key, equals, text_value = text.partition("=")
        if not equals or not all(key.strip().split(".")):
            raise ConfigError(f"{text!r} is not key=value, such as algorithm.lr=3e-4")
        key, value = new_name(key.strip()), _value(text_value)
        key = key if isinstance(value, Mapping) else short.get(key, key)
        *tables, name = key.split(".")
        if len(tables) >= MOST_PARTS:
            raise ConfigError(f"{key[:40]}...: a key has at most {MOST_PARTS} parts")
        table = document
        for part in tables:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise ConfigError(f"{key}: {part} is a value, not a table")
        table[name] = values[key] = value
    return values


def _short_keys(algorithm: str) -> dict[str, str]:
    keys = dict[str, Any]()
    with suppress(BadRequest, MissingExtra):  # named when the configuration is complete
        keys = key_types(algorithm)
    words = [(key.rpartition(".")[2], key) for key in keys if key.startswith(_COMMON_TABLES)]
    counts = Counter(word for word, _ in words)
    return {word: key for word, key in words if counts[word] == 1} | SHORT_FORMS


def _value(text: str) -> Any:
    try:
        return parse_toml(f"value = {text}")["value"]
    except Undecodable:
        return float(text) if _BARE_POINT.fullmatch(text) else _PYTHON_VALUES.get(text, text)


def overrides(settings: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield nested settings as the command line's ``key=value``. Raises `ConfigError`."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from overrides(value, f"{prefix}{key}.")
        elif isinstance(value, int | float | str | list):
            yield f"{prefix}{key}={value}"
        else:
            raise ConfigError(f"{prefix}{key}: {value!r} is no number, text or list")
