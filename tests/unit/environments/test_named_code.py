"""Code that a configuration may name: a factory is checked before it is called, in all places."""

import sys

import named_factories
import pytest

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.environments.scripted import players as scripted
from marless.functions.errors import BadRequest
from marless.functions.nn.shape import MixerShape, NetworkShape

SHELL = {"args": "touch called", "shell": True}


@pytest.fixture(autouse=True)
def folder(tmp_path, shell):
    shell.cd(tmp_path)
    yield tmp_path
    assert not list(tmp_path.iterdir()), "something was called"


def make(name, **options):
    registry.make(EnvTask(name=f"pettingzoo:{name}", options=options), 1).close()


@pytest.mark.parametrize("name", named_factories.HONEST)
def test_factory_may_be_written_in_any_usual_way(name):
    make(f"named_factories:{name}")


@pytest.mark.parametrize("name", ["gone", "parallel_env"])
def test_a_module_that_refuses_a_name_says_why(shell, name):
    shell.provide({"lazy": named_factories.lazy})
    with pytest.raises(BadRequest, match=rf"module 'lazy' refuses '{name}': ImportError: cannot import name '{name}'"):
        make(f"lazy:{name}")


@pytest.mark.parametrize("name", named_factories.OTHERS)
def test_function_without_environment_is_refused_uncalled(name):
    with pytest.raises(BadRequest, match=rf"named_factories:{name}: nothing shows that .* '-> ParallelEnv'$"):
        make(f"named_factories:{name}", **SHELL)


@pytest.mark.parametrize(
    "name", ["subprocess:check_output", "os:system", "builtins:exec", "antigravity:fly", "test.autotest:main"]
)
def test_pythons_own_library_is_not_even_imported(name):
    sys.modules.pop("antigravity", None)
    with pytest.raises(BadRequest, match="belongs to Python's own library"):
        make(name, **SHELL)
    assert not {"antigravity", "test.autotest"} & sys.modules.keys()


@pytest.mark.parametrize(
    "name",
    ["numpy:save", "boto3:client", "marless.runs.train_and_resume:train", "marless.infra.local.processes.zygote:main"],
)
def test_functions_of_installed_packages_make_no_environment(name):
    with pytest.raises(BadRequest, match="so it was not called"):
        make(name)


def test_check_of_nested_task_is_same():
    with pytest.raises(BadRequest, match="belongs to Python's own library"):
        make("marless.environments:as_pettingzoo", task="pettingzoo:subprocess:check_output")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("os:system", "belongs to Python's own library"),
        ("named_factories:runs", "nothing shows that it makes a torch.nn.Module, so it was not called"),
        ("named_factories:runs_partially", "nothing shows"),
        ("numpy:load", "nothing shows"),
    ],
)
def test_network_and_mixer_are_factories_of_modules(name, message):
    modules = pytest.importorskip("marless.functions.nn.torch_modules")
    network = NetworkShape(factory=name, observation=(2,), rest=0, outputs=2, hidden=(4,), output_gain=1.0)
    mixer = MixerShape(factory=name, agents=2, state=4, mixing_embed_dim=4, hypernet_embed=4)
    for shape in (network, mixer):
        with pytest.raises(BadRequest, match=message):
            modules.build(shape)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("shutil:copyfile", "belongs to Python's own library"),
        ("named_factories:check_output", "it is no function of 'named_factories'"),
        ("named_factories:loads", "it is no function of 'named_factories'"),
        ("named_factories:removes", "it does not take 2 arguments"),
        ("named_factories:MAPS", "it is no function of"),
    ],
)
def test_scripted_player_maps_observations_and_legal_actions(name, message):
    with pytest.raises(BadRequest, match=f"scripted player {name}: .*{message}.*"):
        scripted.load(name)
