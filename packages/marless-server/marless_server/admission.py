"""Submissions: read a configuration, check it, and refuse code of owners without that right."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from marless.coordinator.config import toml_dump
from marless.coordinator.config.defaults import fill_default_run
from marless.coordinator.config.loading import convert, override, overrides, spelled_out
from marless.coordinator.config.nested_tables import flatten, nest
from marless.coordinator.config.renamed_keys import with_new_names
from marless.coordinator.config.schema import ConfigError, RunConfig
from marless.coordinator.config.toml_parsing import parse_toml
from marless.functions.encoding import Undecodable, from_json, to_json
from marless.functions.environments.scripted import script_names
from marless.functions.environments.task_names import FAMILIES
from marless.runs.inputs.required_packages import require_packages
from marless.runs.train_and_resume import with_limits
from marless.studies import study_file
from marless.studies.seeds import seeds_of
from marless.studies.study import Study
from marless.studies.study_file import StudyFile
from marless.studies.study_run import StudyRun
from marless_server.store.runs import RunRow

SOURCE = "the submission"
_TASK = re.compile(r"(?P<family>(?:\w+:)?\w+/)[\w.+-]+")
# Words and numbers. A path, or a place of code, has other characters.
_PLAIN = re.compile(r"[\w.,+ -]*")
# Keys that run code, reach the network or read files, and the values that anyone may give them.
_KEYS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("resources", "log.to", "base.policies", "base.model", "offline.dataset"), ()),
    "task.judge": ("",),
    "opponents.policies": ("random", script_names.SCRIPTED),
    "league.script": (script_names.SCRIPTED,),
}
_MOST_KEYS, _MOST_STUDY_RUNS = 1_000, 500
_SEARCHES = ("grid", "random")
# Tables of a study that only `marless study` has, and the remedy.
_NOT_SERVED = {
    "config": "Put its settings into base",
    "halving": "Stop weak runs by hand",
    "pool": "The server has one pool",
    "owner": "The runs are yours",
    "owners": "The runs are yours",
    "dollars": "Set base.stop.dollars for each run",
}
# Limits that a resume may change.
_LIMITS = ("rounds", "env_steps", "dollars", "return")


class Forbidden(Exception):
    """The owner may not do this. `key` is the setting, `str` of the error the line for the user."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key}: {reason}; ask for the right `code`")
        self.key = key


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The body of a request to resume a run: limits by their names in the table `stop`."""

    stop: dict[str, int | float] = {}


class Changes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The body of a request to change a run. `keep`: it stays, although its owner's `keep_days` are over."""

    keep: bool


def document_of(body: bytes, is_toml: bool) -> dict[str, Any]:
    """Return the tables of a submission. Raises `Undecodable`, which says why the body cannot be read."""
    if is_toml:
        try:
            return parse_toml(body.decode())
        except UnicodeDecodeError as error:
            raise Undecodable(f"it is no UTF-8: {error.reason}") from error
    document: dict[str, Any] = from_json(body, dict[str, Any])
    json.JSONDecoder(object_pairs_hook=_without_repetition).decode(body.decode())
    return document


def checked_config(document: Mapping[str, Any], may_name_code: bool, gpus: int) -> RunConfig:
    """Return the configuration of a new run, as `marless train` would. Raises `ConfigError`, `UserError`, and
    `Forbidden` for a setting that the owner may not use."""
    if (count := len(flatten(document))) > _MOST_KEYS:
        raise ConfigError(f"{SOURCE}: it has {count:,} keys, more than {_MOST_KEYS:,}")
    tables = with_new_names(spelled_out(document))
    if not may_name_code:
        refuse_code(tables)
    config = convert(fill_default_run(tables)[0], SOURCE)
    if config.stop.seconds is not None:
        raise ConfigError(f"{SOURCE}: stop.seconds: it would count waiting for other runs. Use stop.rounds")
    _require_parts(config, gpus)
    return config


def study_runs(document: Mapping[str, Any], may_name_code: bool, gpus: int) -> list[StudyRun]:
    """Return the runs of a study, as `marless study` would train them. Raises as `checked_config` does."""
    file = _study_file(document)
    if not may_name_code:
        for tables in (file.base, *(setting.values for setting in file.setting), *_varied(file.vary)):
            refuse_code(with_new_names(tables))
    seeds, runs = seeds_of(file.seeds), list[StudyRun]()
    study = Study(Path(), file, seeds)
    while max(len(runs), len(seeds)) <= _MOST_STUDY_RUNS and (more := study.ask()):
        runs += more
    if max(len(runs), len(seeds)) > _MOST_STUDY_RUNS:
        raise ConfigError(f"{SOURCE}: a study on a server has at most {_MOST_STUDY_RUNS} runs")
    for run in runs:
        _require_parts(run.config, gpus)
    return runs


def _study_file(document: Mapping[str, Any]) -> StudyFile:
    """Return the study of a document. Raises `ConfigError` for tables that studies on a server do not have."""
    if (count := len(flatten(document))) > _MOST_KEYS:
        raise ConfigError(f"{SOURCE}: it has {count:,} keys, more than {_MOST_KEYS:,}")
    if key := next((key for key in _NOT_SERVED if key in document), ""):
        raise ConfigError(f"{SOURCE}: {key}: a study on a server has no such key. {_NOT_SERVED[key]}")
    file = study_file.parse(document, SOURCE, Path())
    if file.search.rule not in _SEARCHES:
        raise ConfigError(f"{SOURCE}: search.rule: on a server it is one of {', '.join(_SEARCHES)}")
    return file


def _varied(vary: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a table for each value that a key may get."""
    for key, values in flatten(vary).items():
        for value in values if isinstance(values, list) else [values]:
            yield nest({key: value})


def _require_parts(config: RunConfig, gpus: int) -> None:
    """Raise `ConfigError` and `UserError` for a GPU or a package that the server lacks."""
    if getattr(config.algorithm, "device", "cpu") == "cuda" and not gpus:
        raise ConfigError(f"{SOURCE}: algorithm.device: the server has no GPU (marless serve --gpus)")
    require_packages(config)


def refuse_code(tables: Mapping[str, Any]) -> None:
    """Raise `Forbidden` for settings that could run code, reach a network or read files: only names of installed tasks,
    algorithms and rules pass."""
    for key, value in flatten(tables).items():
        limited = next((name for name in _KEYS if f"{key}.".startswith(f"{name}.")), None)
        if limited is not None and value not in _KEYS[limited] and value not in ({}, []):
            raise Forbidden(key, "it can run code, reach a network or read a file of the server")
        if key == "task.name":
            if isinstance(value, str) and not _is_installed_task(value):
                raise Forbidden(key, f"{value[:80]} is no name of an installed task")
        elif text := next((text for text in _texts(value) if not _PLAIN.fullmatch(text)), None):
            raise Forbidden(key, f"{text[:80]!r} could name code or a file, as it is no plain word")


def stored_config(row: RunRow) -> RunConfig:
    """Return the configuration of a run in the queue. Raises `ConfigError`."""
    return convert(parse_toml(row.config), SOURCE)


def settings_hash(config: RunConfig) -> str:
    """Return a hash of all settings except the seed, limits and loggers. Runs with the same hash have equal prices."""
    document = msgspec.to_builtins(config)
    return hashlib.sha256(
        to_json({key: document[key] for key in document if key not in ("seed", "stop", "log")})
    ).hexdigest()


def config_text(config: RunConfig) -> str:
    """Return the configuration as TOML."""
    return toml_dump.document(config)


def new_limits(row: RunRow, body: bytes) -> tuple[list[str], int | None]:
    """Return the limits in the body of a resume as key=value, and the new number of rounds.

    Raises `Undecodable`, `ConfigError` and `UserError`.
    """
    limits = from_json(body, Limits) if body.strip() else Limits()
    for name in limits.stop:
        if name not in _LIMITS:
            raise ConfigError(f"{SOURCE}: stop.{name}: a resume changes {', '.join(_LIMITS)}")
    settings = [*overrides({"stop": limits.stop})]
    return settings, with_limits(stored_config(row), settings).effective().stop.rounds


def with_settings(document: dict[str, Any], settings: list[str]) -> dict[str, Any]:
    """Return the document with key=value settings over it. Raises `ConfigError`."""
    tables = spelled_out(document)
    override(tables, settings)
    return tables


def _is_installed_task(name: str) -> bool:
    """Return whether the name locates no code. The house refuses names that it does not know."""
    match = _TASK.fullmatch(name)
    return _PLAIN.fullmatch(name) is not None or (
        match is not None and ".." not in name and (":" not in name or match["family"] in FAMILIES)
    )


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts([key, item])


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise Undecodable(f"{twice[:80]}: the key is there twice")
    return document
