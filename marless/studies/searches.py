"""Searches: which settings a study tries. A search is asked for the next setting and told how settings did."""

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import msgspec
import numpy as np

from marless.coordinator.config.schema import ConfigError
from marless.functions.encoding import mismatch
from marless.functions.errors import MissingExtra
from marless.studies.study_file import Search, Value

Values = dict[str, Value]
"""The keys of a run's file, dotted, that a setting sets."""


class Range(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Numbers between `low` and `high`, both included. They are whole if both bounds are whole and `log` is not set."""

    low: float | int
    high: float | int
    log: bool = False

    @property
    def whole(self) -> bool:
        """True if its numbers are whole."""
        return isinstance(self.low, int) and isinstance(self.high, int) and not self.log

    def at(self, part: float) -> float | int:
        """The number at a part, 0 to 1, of the way from `low` to `high`."""
        if self.whole:
            return min(int(self.high), int(self.low) + int(part * (self.high - self.low + 1)))
        if self.log:
            return float(math.exp(math.log(self.low) + part * (math.log(self.high) - math.log(self.low))))
        return float(self.low + part * (self.high - self.low))


Space = dict[str, list[Value] | Range]
"""What each key may be."""


class Searcher(Protocol):
    """Picks settings. A searcher that `learns` picks later settings by the results of earlier settings."""

    learns: bool

    def ask(self) -> Values | None:
        """Return the next setting, or None if all were asked for."""

    def repeat(self, values: Values) -> None:
        """Make these values the next setting again: it returned them before the study was interrupted."""

    def tell(self, number: int, score: float) -> None:
        """The mean return of the setting that was asked for as the `number`-th, from 0."""


def space(vary: Mapping[str, Any]) -> Space:
    """Return the table `vary`, keys dotted. Raises `ConfigError` unless each value is a list or a range."""
    return dict(_entries(vary, ""))


def _entries(table: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, list[Value] | Range]]:
    for name, value in table.items():
        key = f"{prefix}{name}"
        if isinstance(value, list) and value:
            yield key, value
        elif isinstance(value, Mapping) and "low" in value:
            yield key, _range(key, value)
        elif isinstance(value, Mapping):
            yield from _entries(value, f"{key}.")
        else:
            raise ConfigError(f"vary.{key}: give a list of values, or a range {{low = ..., high = ...}}")


def _range(key: str, table: Mapping[str, Any]) -> Range:
    try:
        values_range = msgspec.convert(table, Range)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{mismatch(error).below(f'vary.{key}')}") from error
    if values_range.low >= values_range.high or (values_range.log and values_range.low <= 0):
        raise ConfigError(f"vary.{key}: low must be less than high, and above 0 if log is set")
    return values_range


class Listed:
    """Settings that are known from the start."""

    learns = False

    def __init__(self, settings: Iterable[Values]) -> None:
        self._settings = iter(settings)

    def ask(self) -> Values | None:
        """See `Searcher`."""
        return next(self._settings, None)

    def repeat(self, values: Values) -> None:
        """They come again by themselves."""

    def tell(self, number: int, score: float) -> None:
        """Nothing to learn."""


def grid(space: Space, search: Search) -> Searcher:
    """Return every combination of the listed values. Raises `ConfigError` for a range."""
    for key, values in space.items():
        if isinstance(values, Range):
            raise ConfigError(f"vary.{key}: a grid needs a list of values; set search.rule for a range")
    return Listed(dict(zip(space, values, strict=True)) for values in itertools.product(*space.values()))  # type: ignore[arg-type]


def random(space: Space, search: Search) -> Searcher:
    """Independent uniform draws (Bergstra & Bengio, "Random Search for Hyper-Parameter Optimization", JMLR 2012)."""
    generator = np.random.default_rng(search.seed)

    def draw() -> Values:
        return {
            key: values.at(float(generator.random()))
            if isinstance(values, Range)
            else values[int(generator.integers(len(values)))]
            for key, values in space.items()
        }

    return Listed(draw() for _ in range(_settings(search)))


class _Optuna:
    """Optuna's default sampler, the tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011)."""

    learns = True

    def __init__(self, space: Space, search: Search) -> None:
        try:
            import optuna
        except ImportError as error:
            raise MissingExtra("search") from error
        if search.parallel is None:
            raise ConfigError("search.parallel: say how many settings to try at once; the fewer, the more it learns")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._known, self._left = space, _settings(search)
        self._study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=search.seed))
        self._trials: list[Any] = []

    def ask(self) -> Values | None:
        """See `Searcher`."""
        if len(self._trials) == self._left:
            return None
        self._trials.append(self._study.ask())
        return {key: self._suggest(key, values) for key, values in self._known.items()}

    def repeat(self, values: Values) -> None:
        """See `Searcher`."""
        spaces = self._known.items()
        self._study.enqueue_trial(
            {key: values[key] if isinstance(space, Range) else space.index(values[key]) for key, space in spaces}
        )

    def tell(self, number: int, score: float) -> None:
        """See `Searcher`."""
        self._study.tell(self._trials[number], score)

    def _suggest(self, key: str, values: list[Value] | Range) -> Any:
        trial = self._trials[-1]
        if not isinstance(values, Range):
            # Optuna takes plain values only.
            return values[trial.suggest_categorical(key, range(len(values)))]
        if values.whole:
            return trial.suggest_int(key, values.low, values.high)
        return trial.suggest_float(key, values.low, values.high, log=values.log)


def count(space: Space, search: Search) -> int:
    """Return the number of settings that the search asks for."""
    if search.settings is not None and search.rule != "grid":
        return search.settings
    return math.prod(len(values) for values in space.values() if not isinstance(values, Range))


def _settings(search: Search) -> int:
    if search.settings is None:
        raise ConfigError("search.settings: say how many settings to try")
    return search.settings


SEARCHES = {"grid": grid, "random": random, "optuna": _Optuna}


def searcher(space: Space, search: Search) -> Searcher:
    """Return the search of a study's file. Raises `ConfigError`, and `MissingExtra` if its package is missing."""
    if search.rule not in SEARCHES:
        raise ConfigError(f"search.rule: there is no search {search.rule!r}; there are {', '.join(SEARCHES)}")
    return SEARCHES[search.rule](space, search)
