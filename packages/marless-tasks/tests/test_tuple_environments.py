"""Gymnasium environments of several agents as tasks: one defined here, and level-based foraging and warehouses if their
packages are installed."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from marless.functions.environments import registry
from marless.functions.environments.base import EnvironmentFault, EnvTask
from marless.functions.environments.pettingzoo.adapter import assemble
from marless.functions.environments.task_names import is_known
from marless.functions.errors import BadRequest, MissingExtra
from marless.testing.environments import check
from marless_tasks.tuple_environment import TupleEnvironment, registered_environment


class Pot(gymnasium.Env):
    """Two agents observe the pot's content, at first less than 1, and add 0, 1 or 2. It ends at 6, or after `steps`."""

    def __init__(self, steps=4, share=1.0):
        self.steps, self.share = steps, share
        self.action_space = spaces.Tuple([spaces.Discrete(3)] * 2)
        self.observation_space = spaces.Tuple([spaces.Box(0, 9, (1,), np.float32), spaces.Discrete(10)])
        self.closed = 0

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.step_number, self.pot = 0, self.np_random.random(dtype=np.float32)
        return self.observations(), {}

    def observations(self):
        return np.array([self.pot], dtype=np.float32), int(self.pot)

    def step(self, actions):
        self.step_number += 1
        self.pot += sum(actions)
        done = self.pot >= 6 or self.step_number == self.steps
        return self.observations(), [self.share * action for action in actions], done, False, {}

    def close(self):
        self.closed += 1


def pots(num_envs=1, **options):
    made = []

    def build():
        made.append(Pot(**options))
        return TupleEnvironment(made[-1], made[-1].steps, lambda environment: environment.pot < 6)

    return assemble(EnvTask(name="house/pot"), num_envs, build), made


def put(first, second, num_envs=1):
    return np.full((num_envs, 1), first), np.full((num_envs, 1), second)


def test_tuple_agents_have_own_names_spaces_and_rewards():
    environment, _ = pots()
    seen = environment.reset(np.random.default_rng(0))
    assert environment.spec.agents == ("agent_0", "agent_1")
    assert [(kind.observation_size, kind.actions) for kind in environment.spec.classes] == [(1, 3), (10, 3)]
    assert (environment.spec.horizon, environment.spec.state_size) == (4, 0)
    start = seen.values[0][0, 0, 0]
    assert 0 < start < 1 and seen.values[1][0, 0].tolist() == [1.0] + [0.0] * 9
    step = environment.step(put(2, 1))
    assert step.rewards.tolist() == [[2.0, 1.0]]
    assert step.observation.values[0][0, 0].tolist() == [start + np.float32(3)]
    assert step.observation.values[1][0, 0].tolist() == [0.0] * 3 + [1.0] + [0.0] * 6


def test_an_episode_that_reached_its_end_is_terminated():
    environment, _ = pots()
    environment.reset(np.random.default_rng(0))
    environment.step(put(2, 2))
    step = environment.step(put(2, 2))
    assert step.terminated.tolist() == [[True, True]] and step.truncated.tolist() == [False]
    assert step.ended.tolist() == [True]


def test_an_episode_whose_time_ran_out_is_truncated():
    environment, _ = pots()
    environment.reset(np.random.default_rng(0))
    steps = [environment.step(put(1, 0)) for _ in range(4)]
    assert [step.ended.tolist() for step in steps] == [[False], [False], [False], [True]]
    assert steps[-1].truncated.tolist() == [True] and not steps[-1].terminated.any()
    assert steps[-1].final.values[0][0, 0, 0] >= 4


def test_end_in_last_step_is_an_end():
    environment, _ = pots(steps=2)
    environment.reset(np.random.default_rng(0))
    environment.step(put(2, 2))
    step = environment.step(put(2, 2))
    assert step.terminated.all() and not step.truncated.any()


class WeighedPot(TupleEnvironment):
    """Report the pot's weight at an episode's end."""

    def episode_metrics(self):
        return {"weight": self._environment.pot}


class MislabelledPot(TupleEnvironment):
    def episode_metrics(self):
        return {"weight": "kg"}


def weighed_pots(num_envs, kind=WeighedPot):
    return assemble(EnvTask(name="house/pot"), num_envs, lambda: kind(Pot(), 4, lambda pot: pot.pot < 6))


def test_metrics_are_those_of_the_episodes_that_ended():
    environment = weighed_pots(2)
    start = environment.reset(np.random.default_rng(0)).values[0][:, 0, 0]
    # The first pot is at 6 after two steps, the second runs out of time after four.
    steps = [environment.step((np.array([[2], [1]]), np.array([[2], [0]]))) for _ in range(4)]
    assert [sorted(step.env_metrics) for step in steps] == [[], ["weight"], [], ["weight"]]
    assert steps[1].env_metrics["weight"].tolist() == pytest.approx([start[0] + 8, 0])
    assert steps[3].ended.tolist() == [True, True]
    assert steps[3].env_metrics["weight"][1] == pytest.approx(start[1] + 4)


def test_metric_that_is_no_number_is_fault():
    environment = weighed_pots(1, MislabelledPot)
    environment.reset(np.random.default_rng(0))
    environment.step(put(2, 2))
    with pytest.raises(
        EnvironmentFault, match="house/pot, copy 0, step 2, episode_metrics: the metric 'weight' is not"
    ):
        environment.step(put(2, 2))


def test_tuple_environment_keeps_promises_and_is_closed():
    check(lambda num_envs: pots(num_envs)[0])
    check(weighed_pots)
    environment, made = pots(2)
    environment.close()
    environment.close()
    assert [pot.closed for pot in made] == [1, 1]


def test_a_tuple_of_another_length_is_a_fault():
    environment, made = pots()
    environment.reset(np.random.default_rng(0))
    made[0].observations = lambda: (np.zeros(1, dtype=np.float32),)
    with pytest.raises(EnvironmentFault, match="house/pot, copy 0, step 1, step: ValueError"):
        environment.step(put(0, 0))


@pytest.fixture
def registered_pot(tmp_path, shell):
    (tmp_path / "pot_package.py").write_text("")
    shell.import_from(tmp_path)
    for size in ("small", "large"):
        gymnasium.register(id=f"Pot-{size}-v1", entry_point=f"{__name__}:Pot", kwargs={"steps": len(size)})
    yield
    for size in ("small", "large"):
        del gymnasium.registry[f"Pot-{size}-v1"]


FORM = "pot/<size>"


def test_a_registered_environment_is_found_by_its_label(registered_pot):
    creator, arguments = registered_environment("pot/small", "pot_package", "Pot-{}-v1", FORM)
    assert creator.__name__ == "Pot" and arguments == {"steps": 5}
    arguments["steps"] = 9
    assert registered_environment("pot/small", "pot_package", "Pot-{}-v1", FORM)[1] == {"steps": 5}


@pytest.mark.parametrize(
    ("label", "answer"), [("smal", "nearest: pot/small"), ("xyz", "write it as pot/<size>")], ids=["nearest", "form"]
)
def test_an_unregistered_label_is_answered_in_one_line(registered_pot, label, answer):
    with pytest.raises(ValueError, match=f"no environment 'Pot-{label}-v1' for pot/{label}; {answer}$"):
        registered_environment(f"pot/{label}", "pot_package", "Pot-{}-v1", FORM)


@pytest.mark.parametrize(
    ("name", "module", "install"),
    [
        ("package:lbf/8x8-2p-3f", "lbforaging", "lbforaging"),
        ("package:rware/tiny-2ag", "rware", "rware"),
        ("magent2/battle", "magent2", "magent2"),
        ("mamujoco/HalfCheetah-2x3", "gymnasium_robotics", "gymnasium-robotics 'mujoco<3.6'"),
        ("package:overcooked/cramped_room", "overcooked_ai_py", "--no-deps overcooked-ai gym"),
        ("vmas/balance", "vmas", "'vmas>=1.5.2,<2'"),
        ("hanabi/small", "pyspiel", "'pettingzoo>=1.27' 'open_spiel>=1.6.15'"),
        ("meltingpot/coins", "meltingpot", "'dm-meltingpot>=2.4,<3', see docs/reference/environments.md"),
    ],
)
def test_family_without_package_is_one_line(shell, name, module, install):
    shell.uninstall(module)
    with pytest.raises(MissingExtra) as error:
        registry.make(EnvTask(name=name), 1)
    said = str(error.value)
    assert said.startswith(f"{name} needs ") and f"'{module}'" in said and said.endswith(f": pip install {install}")
    assert "\n" not in said


def test_naming_a_task_loads_no_package_of_it():
    code = (
        "import sys; from marless.functions.environments.task_names import is_known\n"
        "from marless_tasks import meltingpot; from marless_tasks.vmas import adapter\n"
        "assert is_known('meltingpot/coins') and is_known('vmas/balance')\n"
        "print({'meltingpot', 'tensorflow', 'dmlab2d', 'vmas', 'torch', 'gym'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        ("lbf/8x8-2p-3f", True),
        ("package:lbf/8x8-2p-3f", True),
        ("rware/tiny-2ag", True),
        ("package:rware/tiny-2ag", True),
        ("overcooked/xyz", True),
        ("mamujoco/xyz", True),
        ("magent2/xyz", True),
        ("pettingzoo:a.b:c", True),
        ("toy/signal", True),
        ("toy/lbf/8x8-2p-3f", False),
        ("rware", False),
    ],
)
def test_names_of_lists_and_families_are_known(name, listed):
    assert is_known(name) == listed


def test_unknown_name_lists_the_families():
    with pytest.raises(BadRequest, match=r"lbf/8x8-2p-3f .*rware/tiny-2ag .* and vmas/balance "):
        registry.make(EnvTask(name="xyz"), 1)


@pytest.mark.parametrize(
    ("name", "package", "options"),
    [
        ("package:lbf/2s-5x5-2p-1f-coop", "lbforaging", {"penalty": 0.1}),
        ("package:rware/tiny-2ag", "rware", {"observation_type": "image_dict"}),
    ],
)
def test_games_of_packages_keep_every_promise(name, package, options):
    pytest.importorskip(package)
    task = EnvTask(name=name, options=options | {"horizon": 8})
    check(lambda num_envs: registry.make(task, num_envs))


@pytest.mark.parametrize(
    ("package", "name", "options", "message"),
    [
        ("lbforaging", "package:lbf/8x8-2p-99f", {}, "lbforaging has no environment .*; nearest: package:lbf/8x8-2p-"),
        ("lbforaging", "package:lbf/xyz", {}, "write it as package:lbf/.* such as package:lbf/8x8-2p-3f$"),
        ("lbforaging", "package:lbf/8x8-2p-3f", {"players": "x"}, "refuses task.options"),
        ("lbforaging", "package:lbf/8x8-2p-3f", {"horizon": 0}, "the horizon is 0; it must be a whole number"),
        ("rware", "package:rware/tiny-2agg", {}, "rware has no environment .*; nearest: package:rware/tiny-2ag"),
        ("rware", "package:rware/xyz", {}, "write it as package:rware/.* such as package:rware/tiny-2ag$"),
        (
            "rware",
            "package:rware/tiny-2ag",
            {"reward_type": "all"},
            "is 'all'. There are global, individual, two_stage",
        ),
        ("rware", "package:rware/tiny-2ag", {"shelves": 3}, "refuses task.options {'shelves': 3}"),
    ],
)
def test_invalid_user_input_is_one_line(package, name, options, message):
    pytest.importorskip(package)
    with pytest.raises(BadRequest, match=message) as refused:
        registry.make(EnvTask(name=name, options=options), 1)
    assert "\n" not in str(refused.value)
