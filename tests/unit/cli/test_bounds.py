"""Every number of a configuration has an upper bound, so a machine's work always ends."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from marless.coordinator.config.loading import convert, load, override
from marless.coordinator.config.schema import ConfigError, RunConfig
from marless.coordinator.config.toml_parsing import MOST_PARTS, parse_toml
from marless.functions.algorithms import registry as algorithms
from marless.functions.encoding import Undecodable
from marless.functions.environments.base import EnvTask
from marless.functions.environments.games import battles, foraging, kitchen, warehouse
from marless.studies.study_file import StudyFile

# Numbers that name a thing or start a count, so no work grows with them.
FREE = {"EnvTask.options", "Evaluation.options", "StudyFile.base", "StudyFile.vary", "Setting.values"}


def unbounded(kind: inspect.Type, where: str) -> Iterator[str]:
    if isinstance(kind, inspect.IntType | inspect.FloatType) and kind.le is None and kind.lt is None:
        yield where
    for name, part in parts(kind):
        yield from unbounded(part, f"{kind.cls.__name__}.{name}" if isinstance(kind, inspect.StructType) else where)


def parts(kind: inspect.Type) -> list[tuple[str, inspect.Type]]:
    """The types that a type is made of. Fields of a struct have their names."""
    if isinstance(kind, inspect.StructType):
        return [(field.name, field.type) for field in kind.fields]
    inner = [getattr(kind, name, ()) for name in ("type", "types", "item_type", "item_types", "value_type")]
    return [("", part) for found in inner for part in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize(
    "struct", [RunConfig, StudyFile, EnvTask, *(spec.config for spec in algorithms.ALGORITHMS.ours())]
)
def test_every_configuration_number_has_upper_bound(struct):
    assert {*unbounded(inspect.type_info(struct), "")} - FREE == set()


GAMES = (battles.BattleOptions, foraging.ForagingOptions, kitchen.KitchenOptions, warehouse.WarehouseOptions)


@pytest.mark.parametrize("options", [*GAMES, *msgspec.Struct.__subclasses__()])
def test_every_environment_option_number_has_upper_bound(options):
    if options.__name__.endswith("Options") and options.__module__.startswith("marless.functions.environments"):
        assert {*unbounded(inspect.type_info(options), "")} == set()


def refusal(*settings: str) -> str:
    with pytest.raises(ConfigError) as refused:
        load(None, settings)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("key", [
    "actors.num_envs", "actors.rollout_length", "task.agents", "actors.rollouts", "evaluation.episodes",
    "evaluation.final_episodes", "evaluation.every", "algorithm.epochs", "algorithm.num_minibatches", "seed",
    "checkpoint_every", "placement.pack", "stop.rounds", "stop.env_steps",
])  # fmt: skip
@pytest.mark.parametrize("value", ["99999999999999999999", "9" * 5000])
def test_excessive_number_is_one_line_with_key(key, value):
    assert key in refusal(f"{key}={value}")


@pytest.mark.parametrize("setting, says", [
    ("actors.rollouts=10001", "actors.rollouts: 10001 is not a whole number of at most 10000"),
    ("task.agents=100000000", "task.agents: 100000000 is not a whole number of at most 1000"),
    ("algorithm.hidden=[1000000000]", "algorithm.hidden"),
    ("algorithm.lr=1e300", "algorithm.lr"),
    ("algorithm.lr=nan", "algorithm.lr"),
    ("stop.return=-inf", "stop.return"),
    (f"task.options.x={2**70}", "task.options.x: 1e+21 is a larger whole number than messages hold"),
    ("task.options.x=inf", "task.options.x: inf is not a finite number"),
    ("task.options.x=\udcff", "task.options.x: it is not valid Unicode text"),
    ("task.options.\udcff=x", "it is not valid Unicode text"),
    ("task.options." + ".".join("a" * 3000) + "=1", "a key has at most 32 parts"),
])  # fmt: skip
def test_unusable_value_is_one_line_with_key(setting, says):
    assert says in refusal(setting)


def test_long_list_of_groups_is_checked_once():
    groups = [[f"agent_{number}"] for number in range(20_000)]
    with pytest.raises(ConfigError, match="agent_7 is named twice"):
        convert({"sharing": {"groups": [*groups, ["agent_7"]]}}, "here")


@pytest.mark.parametrize("text, says", [
    ("a = " + "[" * 900 + "]" * 900, "nested too deeply"),
    ("a = " + "{b=" * 5000 + "1" + "}" * 5000, "nested too deeply"),
    ("seed = " + "9" * 5000, "more digits"),
    ("x = 1\n" + ".".join("a" * 20_000) + " = 1", "more than 32 parts (at line 2)"),
    (" . ".join(['"a b"'] * 100) + " = 1", "more than 32 parts"),
    ("[" + ".".join("a" * 3000) + "]", "more than 32 parts"),
    ("a = {" + ".".join("a" * 3000) + " = 1}", "more than 32 parts"),
    ("#" * (1 << 20) + "\n", "characters, more than"),
])  # fmt: skip
def test_document_too_slow_to_parse_is_refused(text, says):
    with pytest.raises(Undecodable) as refused:
        parse_toml(text)
    assert says in str(refused.value) and len(str(refused.value)) < 200


def test_documents_within_the_bounds_are_read():
    assert parse_toml(".".join("a" * MOST_PARTS) + " = 1")
    assert parse_toml("a = [" + ", ".join(["0.1"] * 1000) + "]")["a"][999] == 0.1
    assert parse_toml("a = '" + "x. " * 1000 + "'")
    document: dict[str, Any] = {}
    override(document, ["algorithm.hidden=[1,2]"])
    assert document == {"algorithm": {"hidden": [1, 2]}}


def test_value_that_is_no_toml_is_text():
    document: dict[str, Any] = {}
    override(document, ["task.name=" + "[" * 2000])
    assert document == {"task": {"name": "[" * 2000}}
