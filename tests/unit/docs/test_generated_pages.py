"""Pages that `make docs` writes: each is up to date and names everything that is registered."""

import re

import msgspec
import pytest

from marless.cli.app import COMMANDS
from marless.coordinator.config.config_keys import RULES, valid_keys
from marless.coordinator.config.loading import load
from marless.coordinator.config.task_defaults import FAMILIES, family_defaults
from marless.functions.algorithms.registry import ALGORITHMS
from marless.functions.environments.task_names import BUILT_IN, GUESTS
from scripts.reference import algorithms, commands, configuration, environments, markdown, prices, rules
from scripts.reference.pages import PAGES

FIXED = "actors.num_envs", "sharing.rule"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_committed_page_equals_output_of_make_docs(path):
    assert path.read_text(encoding="utf-8") == PAGES[path](), "run `make docs` and commit what it changes"


@pytest.mark.parametrize(
    ("page", "names"),
    [
        (algorithms.page, [spec.name for spec in ALGORITHMS.ours()]),
        (algorithms.page, sorted({field for spec in ALGORITHMS.ours() for field in spec.config.__struct_fields__})),
        (algorithms.page, [f"{prefix}…" for prefix in FAMILIES if prefix]),
        (environments.page, BUILT_IN),
        (environments.page, environments.requirements()),
        (commands.page, COMMANDS),
        (configuration.page, [key for key in valid_keys() if not key.startswith("algorithm.")]),
        (rules.page, [name for family in RULES.values() for name in family.built_in]),
    ],
    ids=["algorithms", "settings", "families", "environments", "extras", "commands", "keys", "rules"],
)
def test_a_page_names_everything_that_is_registered(page, names):
    text = page()
    assert names and [name for name in names if f"`{name}`" not in text] == []


def test_settings_have_sources_and_citations_are_listed():
    text = markdown.data("algorithms.toml")
    settings = {field for spec in ALGORITHMS.ours() for field in spec.config.__struct_fields__}
    assert text["defaults"].keys() == settings | {*FIXED}
    reasons = " ".join([*text["defaults"].values(), *text["families"].values()])
    surnames = {name.split()[-1] for name in re.findall(r"([\w ]+) et al\.", reasons)}
    papers = "\n".join(text["papers"])
    assert surnames and [name for name in surnames if f"{name} et al." not in papers] == []


@pytest.mark.parametrize("prefix", [*FAMILIES, *GUESTS])
def test_family_defaults_are_settings_of_value_methods(prefix):
    alone, general = family_defaults(prefix, "qmix")
    for name, settings in (("iql", general), ("qmix", alone)):
        for key, value in settings.items():
            config = msgspec.to_builtins(
                load(None, [f"algorithm.name={name}", f"{key}={markdown.value(value).strip('`')}"])
            )
            for part in key.split("."):
                config = config[part]
            assert config == value


def test_setting_lists_family_default_and_exceptions():
    rows = [line for line in algorithms.page().splitlines() if line.startswith("| `huber_delta` |")]
    assert rows[0].split(" | ")[2:] == ["`10`", "none, qmix `1`, qplex `1`, except pqn", "none", "none", "", " |"]


def test_setting_of_some_environments_says_so():
    (row,) = [line for line in algorithms.page().splitlines() if line.startswith("| `noise_start` | noise")]
    assert row.endswith("|  |  | `0`, continuous actions `0.5` |  |  |  |")


def test_the_worked_example_of_a_bill_adds_up():
    assert "| **total** |  | **$0.00104020** |" in prices.page()
