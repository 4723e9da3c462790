"""Masks of actions of PettingZoo environments, in any place. Only legal actions are taken, or one line says why."""

import numpy as np
import pytest
from drawn_policies import tensors_of
from masked_games import FORMS, PLACES, TURN_FORMS, game, turns

from marless.environments import as_pettingzoo
from marless.functions.environments import registry
from marless.functions.environments.base import EnvironmentFault, Unsupported
from marless.functions.messages.team import Team
from marless.functions.policies import Player, Policy
from marless.reports import load_policy
from marless.reports.policy import TeamFile, export

TEAM = Team(groups=(0, 1))


def networks(spec):
    return tensors_of(spec, TEAM, (8,), recurrent=False, seed=4)


def returns(task, steps=40):
    """The rewards of greedy play: 1 for a legal action, -100 for an illegal action."""
    environment = registry.make(task, 2)
    player = Player(Policy(environment.spec, TEAM, networks(environment.spec)), 2)
    seen, rewards = environment.reset(np.random.default_rng(1)), []
    for _ in range(steps):
        step = environment.step(player.act(seen).env_actions)
        seen = step.observation
        rewards.append(step.rewards)
    return np.concatenate(rewards)


@pytest.mark.parametrize("form", PLACES)
@pytest.mark.parametrize("does", ["choice", "choices"])
def test_no_illegal_action_for_any_mask_place(form, does):
    assert set(returns(game(form, does=does)).reshape(-1)) == {1.0}


@pytest.mark.parametrize("form", TURN_FORMS)
def test_no_illegal_action_in_turns_for_any_mask(form):
    assert set(returns(turns(form)).reshape(-1)) == {0.0, 1.0}


def test_without_masks_illegal_actions_are_taken():
    assert -100.0 in returns(game("none"))


def test_observation_next_to_mask_keeps_other_entries():
    kind = registry.spec(game("third")).classes[0]
    assert kind.observation_size == 4  # the two numbers of "observation" and the two of "goal"
    assert registry.spec(game("obs")).classes[0].observation_size == 2


REFUSED = {
    "late in infos": (Unsupported, r"step 2, step: agent 'a' has an action_mask now, but had none in the first reset"),
    "late in the observation": (Unsupported, r"step 2, step: agent 'a' has an action_mask now, but had none"),
    "gone from infos": (EnvironmentFault, r"step 2, step: the info of agent 'a' has no action_mask, as it had in the"),
    "gone from the observation": (
        EnvironmentFault,
        r"observation of agent 'a' is not a dictionary with its action_mas",
    ),
    "nested": (
        Unsupported,
        r"observes an action_mask within its entry 'inner', where it is not read: move it to the top",
    ),
    "longer": (EnvironmentFault, r"the action mask of agent 'a' has shape \(5,\), not \(4,\)"),
    "shorter": (EnvironmentFault, r"the action mask of agent 'a' has shape \(3,\), not \(4,\)"),
    "nothing legal": (EnvironmentFault, r"the action mask of agent 'a' allows no action"),
    "logarithms": (EnvironmentFault, r"the action mask of agent 'a' holds -1e\+09; it is 1 where an action is legal"),
    "None after a mask": (EnvironmentFault, r"step 2, step: the info of agent 'a' has no action_mask"),
    "words": (EnvironmentFault, r"the action mask of agent 'a' is not numeric"),
    "of numbers": (Unsupported, r"agent 'a' has an action_mask, but continuous actions"),
}


@pytest.mark.parametrize("form", REFUSED)
def test_unusable_mask_is_one_line(form):
    kind, says = REFUSED[form]
    with pytest.raises(kind, match=says) as refused:
        returns(game(form))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("form", ["bools", "floats", "int64", "list"])
def test_a_mask_may_hold_any_kind_of_number(form):
    assert set(returns(game(form)).reshape(-1)) == {1.0}


def test_mask_like_entry_is_named_in_remark():
    says = "'legal_moves' of agent 'a' is not read as a mask of its actions; if it is one, name it 'action_mask'"
    assert says in registry.describe(game("another name"))[1]
    assert says in registry.describe(game("another name in infos"))[1]
    assert "mask" not in registry.describe(game("none"))[1]


@pytest.mark.parametrize("form", PLACES)
def test_act_and_view_use_masks_of_training(tmp_path, form):
    task = game(form)
    spec = registry.spec(task)
    (tmp_path / "policies.safetensors").write_bytes(export(TeamFile(task=task, spec=spec, team=TEAM), networks(spec)))
    policy, own, view = load_policy(tmp_path), FORMS[form](), as_pettingzoo(task)
    for environment, masked in ((own, form == "infos"), (view, False)):
        seen, infos = environment.reset(seed=3)
        for _ in range(5):
            masks = {agent: info["action_mask"] for agent, info in infos.items()} if masked else None
            seen, rewards, _, _, infos = environment.step(policy.act(seen, masks))
            assert rewards == {"a": 1.0, "b": 1.0}
