"""Families of tasks that another distribution offers."""

import re
from importlib.metadata import version

import pytest

from marless.coordinator.config.loading import load_with_origins
from marless.coordinator.config.schema import ConfigError
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.environments.task_names import ENVIRONMENTS, install_command, is_adapted, is_known
from marless.functions.errors import BadRequest
from marless.reports import provenance
from marless.runs.integrity.trusted_origin import named_code

FAMILIES = """
from marless.environments import TaskFamily

MEADOWS = TaskFamily(
    "meadow_tasks",
    "meadow/3",
    "sheep on a meadow",
    defaults={"algorithm.gamma": 0.5, "sharing.rule": "all", "task.options.horizon": 4},
    defaults_with={"iql": {"algorithm.gamma": 0.25}},
)
"""
TASKS = """
from marless.functions.environments import toy
from msgspec.structs import replace

def make(task, num_envs):
    return toy.make(replace(task, name="toy/signal", agents=int(task.name.removeprefix("meadow/"))), num_envs)
"""


MARSHES = "from marless.environments import TaskFamily\nMARSHES = TaskFamily('marsh_tasks', 'marsh/1', 'frogs')\n"


def distribution(site, name, requirement, *families):
    folder = site / f"{name}-3.1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 3.1\nRequires-Dist: {requirement}\n"
    )
    (folder / "entry_points.txt").write_text("\n".join(["[marless.task_families]", *families, ""]))


@pytest.fixture
def meadows(tmp_path, shell):
    """Installs a package for this version, and one for another version."""
    (tmp_path / "meadow_families.py").write_text(FAMILIES)
    (tmp_path / "meadow_tasks.py").write_text(TASKS)
    (tmp_path / "marsh_families.py").write_text(MARSHES)
    offers = ("meadow/ = meadow_families:MEADOWS", "moor/ = meadow_tasks:make", "smax/ = meadow_families:MEADOWS")
    distribution(tmp_path, "meadows", f"marless=={version('marless')}", *offers)
    distribution(tmp_path, "marshes", "marless[aws] ==7.0; python_version > '3'", "marsh/ = marsh_families:MARSHES")
    shell.import_from(tmp_path)


def test_a_task_of_the_family_is_made(meadows):
    assert is_known("meadow/3") and is_adapted("meadow/3")
    assert len(registry.spec(EnvTask(name="meadow/3")).agents) == 3


def test_the_family_sets_defaults_of_runs(meadows):
    config, origins = load_with_origins(None, ["task.name=meadow/3"])
    assert (config.algorithm.gamma, config.sharing.rule, config.task.options) == (0.5, "all", {"horizon": 4})
    assert origins["algorithm.gamma"] == "family meadow/"
    config, origins = load_with_origins(None, ["task.name=meadow/3", "algorithm.name=iql"])
    assert (config.algorithm.gamma, origins["algorithm.gamma"]) == (0.25, "family meadow/ with iql")


def test_a_family_of_the_house_stays_its_own(meadows):
    assert load_with_origins(None, ["task.name=smax/8m"])[0].algorithm.gamma == 0.99


def test_runs_name_the_code_of_the_family(meadows):
    config = load_with_origins(None, ["task.name=meadow/3"])[0]
    assert provenance.fingerprint_of(config).environment.startswith("meadow_families ")
    assert named_code(config) == ["task.name=meadow/3"]


def test_family_of_other_version_is_refused_in_line(meadows):
    ours = re.escape(version("marless"))
    advice = rf"marshes 3\.1 is for marless 7\.0, and this is {ours}: pip install marshes=={ours}$"
    with pytest.raises(ConfigError, match=rf"^the command line: task\.name: family of environments 'marsh/': {advice}"):
        load_with_origins(None, ["task.name=marsh/1"])


def test_a_value_that_is_no_family_is_refused(meadows):
    with pytest.raises(BadRequest, match=r"family of environments 'moor/': meadow_tasks:make is no TaskFamily$"):
        registry.make(EnvTask(name="moor/3"), 1)


def test_unknown_name_gets_example_of_family(meadows):
    assert ENVIRONMENTS.unknown("medow/3") == "no environment is called medow/3; did you mean meadow/3?"


def test_task_of_missing_package_gets_install_command():
    guests = {"hill/": "hills", "moor/": "moors"}
    assert install_command("moor/wet", guests) == "pip install 'marless[moors]'"
    assert install_command("more/wet", guests) == ""
