"""The file of a study: its runs' common settings, variations, owners and limits."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import force_setattr

from marless.coordinator.config.loading import read_toml, spelled_out
from marless.coordinator.config.nested_tables import merge
from marless.coordinator.config.schema import ConfigError, RunConfig
from marless.functions.encoding import mismatch
from marless.functions.setting_limits import LARGEST, MOST_PROCESSES, MOST_ROUNDS, MOST_SEED
from marless.studies.registration import registration_of
from marless.studies.seeds import seeds_of

Value = str | int | float | bool | list[Any]


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A table of the file."""


class PoolSize(_Section, frozen=True, kw_only=True):
    """The pool of worker processes."""

    workers: Annotated[int, Meta(ge=1, le=MOST_PROCESSES)] | None = None
    """Worker processes at most; default: one for each core of this machine."""
    slots: Annotated[int, Meta(ge=1, le=MOST_PROCESSES)] | None = None
    """The name of `workers` in earlier files."""
    cores: Annotated[float, Meta(gt=0, le=MOST_PROCESSES)] | None = None
    """So many cores are kept busy at once; a task that waits keeps a slot, not a core. Default: this machine's."""
    gpus: Annotated[int, Meta(ge=1, le=MOST_PROCESSES)] | None = None
    """So many learners with algorithm.device=cuda compute at once. Default: the GPUs that torch sees here."""
    runs: Annotated[int, Meta(ge=1, le=MOST_PROCESSES)] = 64
    """Runs at work at once; more wait until one ends, so that memory does not grow with a study."""
    memory_mb: Annotated[float, Meta(gt=0, le=LARGEST)] | None = None
    """Memory of all workers together, each at most its part; default: without limit."""
    backend: str | None = None
    """The cluster whose nodes the workers are on, such as ray; default: they are processes of this machine."""

    def __post_init__(self) -> None:
        if self.slots is not None:
            force_setattr(self, "workers", self.workers or self.slots)
            force_setattr(self, "slots", None)


class Owner(_Section, frozen=True, kw_only=True):
    """An owner of runs that share the pool with other owners' runs."""

    weight: Annotated[float, Meta(gt=0, le=LARGEST)] = 1.0
    """The owner's share of the pool, in relation to the other owners' weights."""
    dollars: Annotated[float, Meta(gt=0, le=LARGEST)] | None = None
    """Cap on the bills of all of the owner's runs together."""


class Setting(_Section, frozen=True, kw_only=True):
    """A listed setting: keys of a run's file, its owner, and its name."""

    name: Annotated[str, Meta(pattern="^[A-Za-z0-9_-][A-Za-z0-9._-]*$", max_length=80)]
    values: dict[str, Any] = {}
    owner: str | None = None


class Search(_Section, frozen=True, kw_only=True):
    """The way that a search picks settings from `vary`, see `marless.studies.searches`."""

    rule: str = "grid"
    settings: Annotated[int, Meta(ge=1, le=MOST_PROCESSES)] | None = None
    """How many are tried; the grid tries all."""
    seed: Annotated[int, Meta(ge=0, le=MOST_SEED)] = 0
    parallel: Annotated[int, Meta(ge=1, le=MOST_PROCESSES)] | None = None
    """Settings at work at once; default: all, but for searches that learn, which need a number."""


class Halving(_Section, frozen=True, kw_only=True):
    """Early stopping of the worse settings, see `marless.studies.halving`."""

    rungs: Annotated[list[Annotated[int, Meta(ge=1, le=MOST_ROUNDS)]], Meta(min_length=1)]
    """The rounds after which settings are compared, ascending."""
    keep: Annotated[float, Meta(gt=0, lt=1)] = 1 / 3
    """The part of the settings that goes on."""


class StudyFile(_Section, frozen=True, kw_only=True):
    """A study. `config` names a run's file, and `base` overrides its keys. `vary` has the choices of a search by key:
    lists of values, or ranges ``{low = 1e-5, high = 1e-2, log = true}``. `setting` lists settings by hand."""

    config: str | None = None
    base: dict[str, Any] = {}
    vary: dict[str, Any] = {}
    setting: list[Setting] = []
    seeds: str | list[Annotated[int, Meta(ge=0, le=MOST_SEED)]] = "1-10"
    search: Search = Search()
    halving: Halving | None = None
    pool: PoolSize = PoolSize()
    owner: str = "me"
    """Whose runs they are, where a setting does not say so."""
    owners: dict[str, Owner] = {}
    dollars: Annotated[float, Meta(gt=0, le=LARGEST)] | None = None
    """Cap on the bills of all runs together."""
    hold_outs: list[str] = []
    """Tasks that no setting may be chosen on."""

    @property
    def registration(self) -> str:
        """Return the hash of the file. Pool, owners and caps do not count."""
        settings = [(one.name, one.values) for one in self.setting]
        content = {name: getattr(self, name) for name in ("base", "vary", "search", "halving", "hold_outs")}
        return registration_of({**content, "setting": settings, "seeds": seeds_of(self.seeds)})


_FIELDS = frozenset(StudyFile.__struct_fields__)


def load(path: Path) -> StudyFile:
    """Return the study in a TOML file. Raises `ConfigError`."""
    document = read_toml(path)
    if key := next((key for key in RunConfig.__struct_fields__ if key in document.keys() - _FIELDS), ""):
        raise ConfigError(
            f"{path}: `{key}` is a key of a run; a study has it as base.{key}, or names the run's file:"
            f' config = "{path.name}"; the run alone: marless train {shlex.quote(str(path))}'
        )
    return parse(document, str(path), path.parent)


def parse(document: Mapping[str, Any], where: str, folder: Path) -> StudyFile:
    """Return the study of a document, with its run's file in `folder` read into `base`. Raises `ConfigError`, which
    names the document by `where`."""
    if "rules" in document or "tasks" in document:
        raise ConfigError(f"{where} compares rules: type marless study FILE, or call marless.ablate(base, arms=rules)")
    try:
        study = msgspec.convert(document, StudyFile)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {mismatch(error)}") from error
    setting = [msgspec.structs.replace(item, values=spelled_out(item.values)) for item in study.setting]
    base = merge({} if study.config is None else read_toml(folder / study.config), spelled_out(study.base))
    study = msgspec.structs.replace(study, config=None, base=base, vary=spelled_out(study.vary), setting=setting)
    if study.vary and study.setting:
        raise ConfigError(f"{where}: give the settings as `vary` or as `setting`, not both")
    if study.halving and sorted(set(study.halving.rungs)) != study.halving.rungs:
        raise ConfigError(f"{where}: halving.rungs: the rounds must ascend")
    return study


def require_same(began: StudyFile, new_file: StudyFile, folder: Path) -> StudyFile:
    """Return the study that continues: `new_file`, which may change seeds, limits and sizes of `began`, but no
    settings. Raises `ConfigError` naming the first table that differs."""
    for name in ("base", "vary", "setting", "halving"):
        if getattr(began, name) != getattr(new_file, name):
            raise ConfigError(f"{folder} holds a study with another `{name}`; choose another `out`")
    before, now = began.search, new_file.search
    if (before.rule, before.seed) != (now.rule, now.seed):
        raise ConfigError(f"{folder} holds a study with another `search`; choose another `out`")
    return new_file
