"""Training's adapter, the evaluator, `act`, PettingZoo views and exported policies choose the same actions for any
spaces. See `random_spaces` for the draws."""

import numpy as np
import pytest
from drawn_policies import tensors_of
from exported_players import exported
from random_spaces import DONE, STEPS, Task

from marless.environments import as_pettingzoo
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.environments.pettingzoo.spaces import JOINT_LIMIT
from marless.functions.evaluator.handler import play
from marless.functions.messages.team import Team
from marless.functions.policies import Player, Policy
from marless.reports import load_policy
from marless.reports.policy import TeamFile, export

SEED = 5
QUICK = [number for number in range(1000) if number % 71 == 3]
SLOW = [number for number in range(1000) if number not in QUICK]


class Case:
    def __init__(self, number, folder):
        rng = np.random.default_rng([39, number])
        joint, last_action, recurrent = rng.random(3) < (0.3, 0.4, 0.3)
        drawn = Task(number)
        few = all(np.prod(drawn.mask_sizes(agent)) <= JOINT_LIMIT for agent in drawn.possible_agents)
        options = {"number": number} | ({"joint_actions": True} if joint and few else {})
        self.number = number
        self.task = EnvTask(name="pettingzoo:random_spaces:Task", options=options, last_action=bool(last_action))
        self.environment = registry.make(self.task, 1)
        spec, self.team = self.environment.spec, Team(groups=(0, 1))
        tensors = tensors_of(spec, self.team, (8, 8), recurrent=bool(recurrent), seed=number)
        self.policy = Policy(spec, self.team, tensors)
        path = folder / "policies.safetensors"
        path.write_bytes(export(TeamFile(task=self.task, spec=spec, team=self.team), tensors))
        self.loaded = load_policy(path)

    def by_the_adapter(self):
        """Return the actions that the environment received in an episode played by an actor."""
        DONE.clear()
        player, seen = Player(self.policy, 1), self.environment.reset(np.random.default_rng(SEED))
        for _ in range(STEPS):
            step = self.environment.step(player.act(seen).env_actions)
            seen = step.observation
        return list(DONE)

    def by_the_evaluator(self):
        DONE.clear()
        play(self.environment, self.policy, np.random.default_rng(SEED), greedy=True, count=1)
        return list(DONE)

    def by_acting(self, player, view=False):
        """Return the actions of a loop over the environment itself, or over its PettingZoo view."""
        DONE.clear()
        environment = as_pettingzoo(self.task) if view else Task(self.number)
        # The first number that the adapter draws.
        seed = SEED if view else int(np.random.default_rng(SEED).integers(2**31))
        seen, _ = environment.reset(seed=seed)
        player.start()
        while environment.agents:
            if view:
                assert all(environment.observation_space(agent).contains(one) for agent, one in seen.items())
            seen, *_ = environment.step(player.act(seen))
        return list(DONE)


def require_equal(found, expected, digits):
    """The same actions in the same types. Numbers are equal up to `digits` of their size."""
    assert len(found) == len(expected) == STEPS
    for own, others in zip(found, expected, strict=True):
        assert list(own) == list(others)
        for agent, action in own.items():
            other = others[agent]
            assert type(action) is type(other)
            if isinstance(other, int):
                assert action == other
                continue
            assert (action.shape, action.dtype) == (other.shape, other.dtype)
            rounding = max(digits, 4 * np.finfo(other.dtype).eps) if other.dtype.kind == "f" else 0
            np.testing.assert_allclose(action, other, rtol=rounding, atol=rounding)


def require_one_choice(number, folder, formats):
    case = Case(number, folder)
    expected = case.by_the_adapter()
    require_equal(case.by_the_evaluator(), expected, digits=0)
    require_equal(case.by_acting(case.loaded), expected, digits=1e-5)
    require_equal(case.by_acting(case.loaded, view=True), expected, digits=1e-5)
    for format_ in formats:
        require_equal(case.by_acting(exported(case.loaded, format_, folder / format_)), expected, digits=1e-4)


@pytest.mark.parametrize("number", QUICK)
def test_all_players_of_policy_choose_same_actions(tmp_path, number):
    pytest.importorskip("onnxruntime")
    require_one_choice(number, tmp_path, ("onnx", "safetensors"))


@pytest.mark.parametrize("number", QUICK[:1])
def test_torch_chooses_them_too(tmp_path, number):
    require_one_choice(number, tmp_path, ("torch",))


@pytest.mark.conformance
@pytest.mark.parametrize("number", SLOW)
def test_all_players_of_thousand_policies_agree(tmp_path, number):
    # torch.export takes a second for each policy.
    require_one_choice(number, tmp_path, ("onnx", "safetensors", "torch")[: 2 + (number % 10 == 0)])
