"""Names of environments: built-in, plug-ins, and messages for unknown ones."""

from pathlib import Path

import pytest
from task_fields import make_task

from marless.functions.actor.handler import describe
from marless.functions.environments import registry
from marless.functions.environments.base import EnvironmentFault, EnvTask
from marless.functions.environments.mpe import options
from marless.functions.environments.task_names import ENVIRONMENTS
from marless.functions.errors import BadRequest, MissingExtra
from marless.functions.messages.actor import DescribeTask

PLUG_IN = """
import msgspec
from marless.functions.environments import toy
from marless.functions.environments.base import EnvTask

class Options(msgspec.Struct, forbid_unknown_fields=True):
    horizon: int = 3

def make(task, num_envs):
    msgspec.convert(task.options, Options)
    if task.agents == 1:
        raise ValueError("task.agents is 1; there are two or more")
    if task.agents == 9:
        raise ValueError(f"nine are too many for {task.name}")
    return toy.make(EnvTask(name="toy/signal", agents=task.agents), num_envs)

def make_contradictory(task, num_envs):
    environment = toy.make(EnvTask(name="toy/signal"), num_envs)
    environment.spec = msgspec.structs.replace(environment.spec, keys=(True, False))
    return environment
"""


@pytest.fixture
def plug_ins(tmp_path, shell):
    (tmp_path / "marless_plug_in.py").write_text(PLUG_IN)
    (tmp_path / "marless_broken.py").write_text("raise OSError('no licence\\nfound')")
    (tmp_path / "marless_lacking.py").write_text("import a_package_nobody_has")
    (tmp_path / "marless_half.py").write_text("import numpy.nothing")
    folder = tmp_path / "marless_plug_in-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: marless-plug-in\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(
        "[marless.environments]\nhouse/plug_in = marless_plug_in:make\n"
        "house/broken = marless_broken:make\nhouse/lacking = marless_lacking:make\n"
        "house/half = marless_half:make\nhouse/absent = marless_plug_in:absent\n"
        "house/contradictory = marless_plug_in:make_contradictory\ntoy/signal = marless_broken:make\n"
    )
    shell.import_from(tmp_path)


def test_the_names_are_listed_sorted():
    assert {"mpe/simple_adversary", "mpe/simple_spread", "toy/signal"} <= {*ENVIRONMENTS}


def test_every_particle_scenario_has_its_name():
    scenarios = {f"mpe/{file.stem}" for file in Path(options.__file__).parent.glob("simple*.py")}
    assert scenarios == {name for name in ENVIRONMENTS if name.startswith("mpe/")}


@pytest.mark.parametrize("name", ["mpe/simple_adversary", "mpe/simple_spread", "toy/signal"])
def test_environment_of_package_is_made_by_name(name):
    environment = registry.make(EnvTask(name=name), 2)
    assert environment.num_envs == 2
    assert environment.spec == registry.spec(EnvTask(name=name))


def test_a_pettingzoo_environment_is_made_by_its_factory():
    spec = registry.spec(EnvTask(name="pettingzoo:mpe2.simple_spread_v3:parallel_env"))
    assert spec.agents == ("agent_0", "agent_1", "agent_2")


def test_description_that_policies_cannot_read_is_refused(plug_ins):
    order = make_task(
        DescribeTask,
        id="i",
        output="o",
        run="r",
        round=0,
        timeout_s=9.0,
        seed=1,
        environment=EnvTask(name="house/contradictory"),
    )
    with pytest.raises(
        EnvironmentFault, match="house/contradictory, its description: the keys of agents are not their"
    ):
        describe(order, None)


def test_plug_in_environment_is_listed_and_made(plug_ins):
    assert "house/plug_in" in ENVIRONMENTS
    assert len(registry.spec(EnvTask(name="house/plug_in", agents=3)).agents) == 3


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"options": {"horizont": 3}}, "house/plug_in: task.options: there is no horizont here"),
        ({"options": {"horizon": "x"}}, "house/plug_in: task.options.horizon: a text is not a whole number"),
        ({"agents": 1}, "house/plug_in: task.agents is 1; there are two or more"),
        ({"agents": 9}, "nine are too many for house/plug_in"),
    ],
)
def test_refusal_of_plug_in_names_its_task(plug_ins, settings, says):
    with pytest.raises(BadRequest) as refused:
        registry.make(EnvTask(name="house/plug_in", **settings), 1)
    assert str(refused.value) == says


def test_plug_in_cannot_take_package_name(plug_ins):
    assert registry.spec(EnvTask(name="toy/signal")).agents == ("agent_0", "agent_1")


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        (
            "house/broken",
            EnvironmentFault,
            "'house/broken' .marless_broken:make. does not load: OSError: no licence found",
        ),
        ("house/absent", EnvironmentFault, "'house/absent' .* AttributeError"),
        ("house/half", EnvironmentFault, "'house/half' .* No module named 'numpy.nothing'$"),
        ("house/lacking", MissingExtra, "'house/lacking' .*pip install a_package_nobody_has"),
    ],
)
def test_plug_in_that_fails_to_load_is_named(plug_ins, name, error, message):
    with pytest.raises(error, match=message) as refused:
        registry.make(EnvTask(name=name), 1)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("mpe/simple_spred", "mpe/simple_spread"),
        ("smax8m", "smax/8m"),
        ("smac_8m", "smac/8m"),
        ("rware-tiny-2ag", "rware/tiny-2ag"),
        ("pettingzoo.module:factory", "pettingzoo:package.module:factory"),
    ],
)
def test_unknown_name_gets_nearest_task_and_family(name, meant):
    with pytest.raises(ValueError, match=f"^no environment is called {name}; did you mean {meant}[?]$"):
        registry.make(EnvTask(name=name), 1)


@pytest.mark.parametrize("name", ["xyz", "lbf", "StarCraft"])
def test_unlike_any_name_lists_all_tasks_and_families(name):
    with pytest.raises(ValueError) as caught:
        registry.make(EnvTask(name=name), 1)
    assert ", ".join(sorted(ENVIRONMENTS)) in str(caught.value)
    for family in ("lbf/8x8-2p-3f (level-based", "rware/", "smac/8m (StarCraft)", "smacv2/", "smax/", "pettingzoo:"):
        assert family in str(caught.value)


def test_environments_are_at_least_one():
    with pytest.raises(ValueError, match="toy/signal: num_envs is 0; at least 1 is needed"):
        registry.make(EnvTask(name="toy/signal"), 0)
