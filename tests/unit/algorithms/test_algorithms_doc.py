"""The tables of actions and defaults in docs/algorithms.md, against the algorithms and their configurations."""

import re
from pathlib import Path

import msgspec
import pytest
from algorithm_families import family

from coordinator.config.schema import load
from functions.algorithms.registry import BUILT_IN, implementation
from functions.contract import BadRequest, Team
from functions.environments import registry
from functions.environments.base import AgentClass, EnvSpec, EnvTask

TEXT = Path(__file__).parents[3].joinpath("docs/algorithms.md").read_text(encoding="utf-8")
COLUMNS = {spec.name: 1 + ("on-policy", "value", "deterministic").index(family(spec)) for spec in BUILT_IN}
SPREAD = EnvTask(name="mpe/simple_spread")
# What a cell says of a task that is not like `SPREAD`, and a task that is so.
TASKS = {
    "": SPREAD,
    "from six agents on": EnvTask(name="mpe/simple_spread", agents=6),
    "in numbers": EnvTask(name="mpe/simple_spread", options={"continuous_actions": True}),
}
KINDS = {
    "one choice": AgentClass("all", (0, 1), 3, 3),
    "several": AgentClass("all", (0, 1), 3, 5, branches=(3, 2)),
    "numbers": AgentClass("all", (0, 1), 3, 1, low=(-1.0,), high=(1.0,)),
}
ALGORITHMS = pytest.mark.parametrize("spec", BUILT_IN, ids=lambda spec: spec.name)


def rows(heading):
    """The first table behind a heading, cell by cell."""
    table = re.search(r"^\|.*?\n\n", TEXT.split(f" {heading}\n")[1], re.MULTILINE | re.DOTALL).group()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()[2:]]


DEFAULTS = {row[0].strip("`"): row for row in rows("Defaults, and where they are from")}
RUN = {name for name in DEFAULTS if "." in name}


def values(cell):
    """What a cell says: by '' the family's value, by an algorithm's name or a kind of task that one's own."""
    found = {}
    for part in filter(None, cell.split("; ")):
        who = next((name for name in (*COLUMNS, *TASKS) if name and part.startswith(f"{name} ")), "")
        found[who] = read(part.removeprefix(who).strip())
    return found


def read(text):
    """A value as the table writes it."""
    words = {"none": None, "on": True, "off": False}
    if text in words:
        return words[text]
    if ", " in text:
        return tuple(read(part) for part in text.split(", "))
    return text if text.isalpha() else float(text.replace(",", ""))


def configured(spec, task):
    """The settings of an algorithm at a task where the user sets none, by name."""
    return msgspec.structs.asdict(spec.config().resolved(registry.spec(task)))


@ALGORITHMS
def test_an_algorithm_takes_the_actions_that_its_row_names_and_refuses_all_others(spec):
    actions = {row[0].strip("`"): row[2].split(", ") for row in rows("Algorithms")}
    taken = []
    for name, kind in KINDS.items():
        task = EnvSpec(("a", "b"), (kind,), horizon=5)
        try:
            implementation(spec).initialise(task, Team(groups=(0, 1)), spec.config().resolved(task), 1, 0)
            taken.append(name)
        except BadRequest:
            pass
    assert taken == actions[spec.name]


@ALGORITHMS
def test_every_setting_has_a_row_with_its_default(spec):
    for name, default in configured(spec, SPREAD).items():
        documented = values(DEFAULTS[name][COLUMNS[spec.name]])
        assert documented.get(spec.name, documented.get("", "nothing")) == default, name


@ALGORITHMS
def test_a_setting_that_an_algorithm_does_not_have_has_no_value_in_its_column(spec):
    known = configured(spec, SPREAD)
    for name in DEFAULTS.keys() - known.keys() - RUN:
        documented = values(DEFAULTS[name][COLUMNS[spec.name]])
        # A value that is not another algorithm's own is one of this one's, too.
        assert not documented.keys() - (COLUMNS.keys() - {spec.name}), name


@pytest.mark.parametrize("kind", [kind for kind in TASKS if kind])
@ALGORITHMS
def test_a_default_changes_with_the_task_where_the_table_says_so_and_nowhere_else(spec, kind):
    usual, here = configured(spec, SPREAD), configured(spec, TASKS[kind])
    changed = {name: value for name, value in here.items() if value != usual[name]}
    cells = {name: values(DEFAULTS[name][COLUMNS[spec.name]]) for name in usual}
    assert changed == {name: values[kind] for name, values in cells.items() if kind in values}


def test_settings_of_the_run_are_those_of_its_configuration():
    assert {"actors.num_envs", "sharing.rule"} == RUN
    for name, column in COLUMNS.items():
        config = load(None, [f"algorithm.name={name}"])
        assert DEFAULTS["actors.num_envs"][column] == str(config.actors.num_envs)
        assert DEFAULTS["sharing.rule"][column] == config.sharing.rule


def test_every_default_has_a_source():
    assert {name for name, row in DEFAULTS.items() if len(row) != 5 or not row[4]} == set()
    cited = {name for row in DEFAULTS.values() for name in re.findall(r"([\w ]+) et al\.", row[4])}
    surnames = {name.split()[-1] for name in cited}
    listed = TEXT.split("## Sources")[1]
    assert surnames and {name for name in surnames if f"{name} et al." not in listed} == set()


def test_no_row_is_of_a_setting_that_nobody_has():
    known = {name for spec in BUILT_IN for name in configured(spec, SPREAD)}
    assert DEFAULTS.keys() - RUN == known


def test_what_is_to_be_set_for_a_family_of_tasks_can_be_set():
    said = [pair for row in rows("By family of tasks") for pair in re.findall(r"[a-z_.]+=[\w.]+", row[1])]
    assert "algorithm.gamma=0.99" in said and "functions.evaluator.timeout_s=300" in said
    for pair in said:
        # IQL has every setting of an algorithm that the table names.
        name = ("algorithm.name=iql",) if pair.startswith("algorithm.") else ()
        load(None, [*name, pair])
