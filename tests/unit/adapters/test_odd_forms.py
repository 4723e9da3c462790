"""Environments of odd forms take legal actions alone, or one line names the cause. `odd_forms` draws them."""

import numpy as np
import pytest
from drawn_policies import tensors_of
from odd_forms import MODULES, Odd

import marless
from marless.functions.environments import registry
from marless.functions.environments.base import EnvironmentFault, EnvTask, Unsupported
from marless.functions.errors import BadRequest
from marless.functions.isolation.process_guard import ProcessGuard
from marless.functions.messages.team import Team
from marless.functions.policies import Player, Policy

QUICK, SLOW = range(60), range(1000, 1024)
TEAM = Team(groups=(0, 1))


def odd(number):
    return EnvTask(name="pettingzoo:odd_forms:Odd", options={"number": number})


def networks(spec, number):
    return tensors_of(spec, TEAM, (8,), recurrent=False, seed=number)


def play(number):
    """The rewards of two episodes of greedy play, and the remarks."""
    with ProcessGuard("odd", str(number)) as guard:
        environment = registry.make(odd(number), 2)
        player = Player(Policy(environment.spec, TEAM, networks(environment.spec, number)), 2)
        seen, rewards = environment.reset(np.random.default_rng(number)), []
        try:
            for _ in range(2 * environment.spec.horizon):
                step = environment.step(player.act(seen).env_actions)
                seen = step.observation
                rewards.append(step.rewards)
        finally:
            environment.close()
    return np.concatenate(rewards), guard.remarks()


def expected_line(environment):
    """Return the line about a fault after play by hand."""
    try:
        environment.reset(seed=0)
        while environment.agents:
            environment.step({agent: environment.acts.sample() for agent in environment.agents})
    except (OSError, SystemExit):
        pass
    return environment.says


@pytest.mark.parametrize("number", QUICK)
def test_odd_environment_plays_legally_or_names_the_cause(number):
    environment = Odd(number)
    if says := expected_line(environment):
        with pytest.raises((EnvironmentFault, Unsupported)) as raised:
            play(number)
        assert says in str(raised.value) and "\n" not in str(raised.value)
        return
    rewards, remarks = play(number)
    assert set(rewards.reshape(-1)) == {1.0}
    assert bool(remarks) == (environment.closes != "well")
    assert all("close() of the environment failed, which changes no result" in line for line in remarks)


@pytest.mark.slow
@pytest.mark.parametrize("number", SLOW)
def test_odd_environment_trains_or_names_the_cause(number, tmp_path, shell):
    shell.cd(tmp_path)
    settings = {"actors": {"num_envs": 2}, "stop": {"rounds": 1}, "evaluation": {"episodes": 2, "final_episodes": 4}}
    task = {"name": "pettingzoo:odd_forms:Odd", "options": {"number": number}}
    says = expected_line(Odd(number))
    try:
        run = marless.train(
            task=task, algorithm={"name": "ippo", "hidden": [8]}, backend="inline", run="odd", **settings
        )
    except Exception as error:
        assert says and says in str(error) and "\n" not in str(error)
        return
    assert not says
    assert run.summary.final_return.mean == 10  # five steps of two agents


@pytest.mark.parametrize(("source", "says"), MODULES.items())
@pytest.mark.parametrize("name", ["odd_zoo:pond", "odd_zoo.pond:make", "odd_zoo.pond"])
def test_failing_import_names_cause_for_any_spelling(tmp_path, shell, source, says, name):
    (tmp_path / "odd_zoo").mkdir()
    (tmp_path / "odd_zoo" / "__init__.py").touch()
    (tmp_path / "odd_zoo" / "pond.py").write_text(source)
    shell.import_from(tmp_path)
    shell.forget("odd_zoo", "odd_zoo.pond")
    with pytest.raises(Exception) as raised:
        registry.make(EnvTask(name=f"pettingzoo:{name}"), 1)
    assert says in str(raised.value) and "\n" not in str(raised.value)
    assert "has no factory" not in str(raised.value)


def test_missing_module_stays_missing_factory(tmp_path, shell):
    (tmp_path / "odd_zoo").mkdir()
    (tmp_path / "odd_zoo" / "__init__.py").touch()
    shell.import_from(tmp_path)
    shell.forget("odd_zoo")
    with pytest.raises(BadRequest, match="module 'odd_zoo' has no factory 'lake'"):
        registry.make(EnvTask(name="pettingzoo:odd_zoo:lake"), 1)
