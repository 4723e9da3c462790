"""A round of PQN gives the weights of a plain step with automatic differentiation."""

import numpy as np
import pytest
import torch
from plain_values import Minibatch, part, starts_of, unroll
from value_scenes import APART, NUM_ENVS, PAIRED, STEPS, TOGETHER, WIDE, Scene

from marless.coordinator.config.loading import load

# One minibatch of all steps, for networks as the plain step has them.
ONE = {"epochs": 1, "num_minibatches": 1, "layer_norm": False, "max_grad_norm": WIDE}
SIDES = [(), (0, 1, 0, 1)]
TEAMS = {"apart": APART, "pairs": PAIRED, "together": TOGETHER}


def recursion(config, rewards, over, ended, values):
    """Return Q(λ) ``[T, B]``: the reward, and a discounted mix of the next value and the next target.

    Before a reset, the mix is the value alone. After a termination, it is 0.
    """
    targets, later = torch.zeros_like(rewards), values[-1]
    for t in range(len(rewards) - 1, -1, -1):
        mixed = (1 - config.td_lambda) * values[t] + config.td_lambda * later
        following = torch.where(ended[t], values[t], mixed)
        later = targets[t] = rewards[t] + config.gamma * torch.where(over[t], 0.0, following)
    return targets


class PlainRound:
    """A round of one minibatch with automatic differentiation: all losses in one, and no stages."""

    def __init__(self, scene):
        self.config, self.team, self.sides = scene.config, scene.team, scene.spec.sides or (0,) * 4
        segments = starts_of(scene.rollouts, range(NUM_ENVS), STEPS)
        self.rows = rows = Minibatch(scene.spec, scene.team, segments, STEPS, scene.config.time_limit, burn_in=0)
        self.online = {group: part(scene.tensors, f"policy/g{group:02d}", True) for group in set(scene.team.groups)}
        self.taken, self.best = [], []
        for agent, group in enumerate(scene.team.groups):
            now, then = unroll(self.online[group], rows.observations[agent], rows.beyond[agent], rows.ended, 0)
            self.taken.append(now.gather(-1, rows.actions[agent][..., None])[..., 0])
            self.best.append(torch.where(rows.legal[agent], then, -1e9).amax(-1).detach())

    def networks(self):
        parameters = [array for network in self.online.values() for array in network.values()]
        optimiser = torch.optim.Adam(parameters, lr=self.config.lr, eps=self.config.adam_eps)
        self.loss().backward()
        optimiser.step()
        return self.online

    def loss(self):
        of_side = self.joint_loss if self.config.decomposition == "sum" else self.own_losses
        return sum(of_side([a for a in range(4) if self.sides[a] == side]) for side in set(self.sides))

    def groups(self, agents):
        return [[a for a in agents if self.team.groups[a] == group] for group in {self.team.groups[a] for a in agents}]

    def joint(self, agents):
        """Return the side's reward, the ends of the side's episodes, and the steps with a living agent."""
        alive, over = (torch.stack([each[a] for a in agents]) for each in (self.rows.alive, self.rows.over))
        return sum(self.rows.rewards[a] for a in agents), (over | ~alive).all(0), alive.any(0)

    def joint_loss(self, agents):
        rows, config = self.rows, self.config
        reward, over, anyone = self.joint(agents)
        target = recursion(config, reward, over, rows.ended, torch.zeros_like(reward))
        for a in agents:
            own = recursion(config, torch.zeros_like(reward), rows.over[a], rows.ended, self.best[a])
            target = target + rows.alive[a] * own
        error, loss = target - sum(rows.alive[a] * self.taken[a] for a in agents).detach(), 0.0
        for group in self.groups(agents):
            total = sum(rows.alive[a] * self.taken[a] for a in group)
            aim = total.detach() + len(group) / len(agents) * error
            loss = loss + (total - aim).square()[anyone].mean()
        return loss

    def own_losses(self, agents):
        rows, loss = self.rows, 0.0
        reward, over, anyone = self.joint(agents)
        for group in self.groups(agents):
            squares = []
            for a in group:
                is_own = self.config.reward == "own"
                signal = (rows.rewards[a], rows.over[a]) if is_own else (reward, over)
                error = self.taken[a] - recursion(self.config, *signal, rows.ended, self.best[a])
                squares.append(error.square()[rows.alive[a] if is_own else anyone])
            loss = loss + torch.cat(squares).mean()
        return loss


@pytest.mark.parametrize("team", TEAMS)
@pytest.mark.parametrize("sides", SIDES, ids=["one side", "two sides"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"time_limit": "terminal", "td_lambda": 0.8},
        {"decomposition": "none"},
        {"decomposition": "none", "reward": "own"},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())) or "sum",
)
def test_round_gives_weights_of_one_plain_step(settings, sides, team):
    scene = Scene("pqn", TEAMS[team], sides, **{"lr": 1e-3, "adam_eps": 1e-3, **ONE, **settings})
    tensors = scene.run(rounds=1)
    for group, network in PlainRound(scene).networks().items():
        for name, array in network.items():
            key = f"policy/g{group:02d}/{name}"
            np.testing.assert_allclose(tensors[key], array.detach(), rtol=1e-9, atol=1e-12, err_msg=key)
            assert not np.array_equal(tensors[key], scene.tensors[key]), key


def test_agents_share_normed_network_unless_attending_to_entities():
    config = load(None, ["algorithm.name=pqn"])
    attending = load(None, ["algorithm.name=pqn", "algorithm.network=attention"])
    assert (config.algorithm.layer_norm, attending.algorithm.layer_norm) == (True, False)
    assert (config.sharing.rule, config.algorithm.replayed_steps) == ("all", 0)
    assert config.algorithm.behaviour(0).amount == 1 > config.algorithm.behaviour(10**9).amount == pytest.approx(0.05)
