"""Recurrent policies against torch's GRU, and players with heads of every kind."""

import numpy as np
import pytest
import torch
from drawn_policies import ALONE, NUMBERS, SHARED, SPEC, observed, seen_at, tensors_of

from marless.functions.actor.rollout import collect
from marless.functions.environments.base import AgentClass, EnvSpec, Observation, Step
from marless.functions.errors import BadRequest
from marless.functions.evaluator.handler import play
from marless.functions.messages.actor import Behaviour
from marless.functions.messages.team import Team
from marless.functions.nn.heads import distribution
from marless.functions.policies import Player, Policy, draws


def in_torch(tensors, team, agent, values):
    """One agent's outputs over ``values [T, E, F]`` from a zero hidden state, with its one-hot as explicit inputs."""
    named = {
        name.split("/")[2]: torch.tensor(array)
        for name, array in tensors.items()
        if name.startswith(f"policy/g{team.groups[agent]:02d}/")
    }
    hidden = torch.tensor(values)
    if team.identity:
        one_hot = torch.zeros((*hidden.shape[:2], len(team.groups)), dtype=hidden.dtype)
        one_hot[..., agent] = 1
        hidden = torch.cat([hidden, one_hot], dim=-1)
    last = sum(name.startswith("w") for name in named) - 1
    for layer in range(last):
        hidden = hidden @ named[f"w{layer}"] + named[f"b{layer}"]
        hidden = torch.relu(hidden) if "relu" in named else torch.tanh(hidden)
    gru = torch.nn.GRU(hidden.shape[-1], len(named["gru_h"]), dtype=hidden.dtype)
    with torch.no_grad():
        gru.weight_ih_l0[...], gru.weight_hh_l0[...] = named["gru_x"].T, named["gru_h"].T
        gru.bias_ih_l0[...], gru.bias_hh_l0[...] = named["gru_bx"], named["gru_bh"]
        return (gru(hidden)[0] @ named[f"w{last}"] + named[f"b{last}"]).numpy()


@pytest.mark.parametrize("hidden", [(16, 12), (12,), (8, 8, 12)], ids=str)
@pytest.mark.parametrize("team", [ALONE, SHARED], ids=["alone", "shared with identity"])
@pytest.mark.parametrize("layers", ["tanh", "relu"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-5)])
def test_recurrent_policy_equals_torch_over_hundred_steps(dtype, tolerance, layers, team, hidden):
    tensors, values = tensors_of(SPEC, team, hidden, dtype=dtype), observed(SPEC, 100, 9, dtype)
    if layers == "relu":
        tensors |= {f"policy/g{group:02d}/relu": np.zeros(0, dtype) for group in set(team.groups)}
    policy = Policy(SPEC, team, tensors)
    memory, found = policy.start(9), []
    for t in range(100):
        outputs, memory = policy.outputs(seen_at(values, t), memory)
        found.append(outputs)
    for index, kind in enumerate(SPEC.classes):
        for position, agent in enumerate(kind.agents):
            expected = in_torch(tensors, team, agent, values[index][position])
            own = np.stack([outputs[index][position] for outputs in found])
            assert own.dtype == dtype
            np.testing.assert_allclose(own, expected, rtol=0, atol=tolerance * max(1, np.abs(expected).max()))


@pytest.mark.parametrize("num_envs", [1, 2, 7, 64])
@pytest.mark.parametrize("spec", [SPEC, NUMBERS], ids=["choices", "numbers and branches"])
@pytest.mark.parametrize("recurrent", [True, False])
def test_environment_block_has_actions_and_states_of_alone(recurrent, spec, num_envs):
    rollouts, steps = 3, 6
    policy = Policy(spec, ALONE, tensors_of(spec, ALONE, (16, 12), recurrent))
    values, rng = observed(spec, steps, rollouts * num_envs), np.random.default_rng(2)
    noise, ended = draws(spec, steps, rollouts * num_envs, rng), rng.random((steps, rollouts * num_envs)) < 0.3
    parts = [slice(rollout * num_envs, (rollout + 1) * num_envs) for rollout in range(rollouts)]
    together, alone = Player(policy, rollouts * num_envs, rollouts), [Player(policy, num_envs) for _ in parts]
    for t in range(steps):
        choice = together.act(seen_at(values, t), tuple(part[t] for part in noise))
        together.forget(ended[t])
        for part, player in zip(parts, alone, strict=True):
            own = [np.ascontiguousarray(array[:, :, part]) for array in values]
            single = player.act(seen_at(own, t), tuple(np.ascontiguousarray(array[t][:, part]) for array in noise))
            player.forget(ended[t][part])
            for index in range(2):
                assert single.actions[index].tobytes() == choice.actions[index][:, part].tobytes()
                assert single.log_probability[index].tobytes() == choice.log_probability[index][:, part].tobytes()
                assert single.env_actions[index].tobytes() == choice.env_actions[index][part].tobytes()


def test_recurrent_agents_have_same_bytes_with_any_neighbours():
    tensors, values = tensors_of(SPEC, ALONE, (16, 12)), observed(SPEC, 5, 9)
    single = EnvSpec(("c",), (AgentClass("x", (0,), 6, 5),), horizon=1)
    own = {name.replace("g02", "g00"): tensor for name, tensor in tensors.items() if "g02" in name}
    noise = draws(SPEC, 5, 9, np.random.default_rng(3))
    together, alone = Player(Policy(SPEC, ALONE, tensors), 9), Player(Policy(single, Team(groups=(0,)), own), 9)
    for t in range(5):
        joint = together.act(seen_at(values, t), tuple(part[t] for part in noise))
        seen = Observation((np.ascontiguousarray(values[0][1:, t].swapaxes(0, 1)),), np.ones((9, 1), bool))
        apart = alone.act(seen, (noise[0][t, 1:],))
        assert apart.actions[0].tobytes() == joint.actions[0][1:].tobytes()
        assert apart.log_probability[0].tobytes() == joint.log_probability[0][1:].tobytes()


class Story:
    """Environments with episodes of the given lengths and random observations. An agent's reward is its action (the sum
    of several numbers)."""

    def __init__(self, spec, lengths, total=40, seed=5):
        self.num_envs, self.lengths = len(lengths), np.array(lengths)
        self.spec = EnvSpec(spec.agents, spec.classes, horizon=max(lengths))
        self.values = observed(spec, total + 1, self.num_envs, seed=seed)
        self.played = []

    def reset(self, rng):
        self.t, self.at = 0, np.zeros(self.num_envs, int)
        return seen_at(self.values, 0)

    def step(self, actions):
        self.played.append(actions)
        self.t, self.at = self.t + 1, self.at + 1
        rewards = np.zeros((self.num_envs, 3))
        for kind, done in zip(self.spec.classes, actions, strict=True):
            rewards[:, kind.agents] = done.reshape(self.num_envs, len(kind.agents), -1).sum(axis=-1)
        ended = self.at == self.lengths
        self.at[ended] = 0
        seen = seen_at(self.values, self.t)
        return Step(seen, rewards, np.zeros((self.num_envs, 3), bool), ended, ended, seen if ended.any() else None)

    def close(self):
        pass


def episodes_of(length, steps):
    return [slice(start, min(start + length, steps)) for start in range(0, steps, length)]


@pytest.mark.parametrize("spec", [SPEC, NUMBERS], ids=["choices", "numbers and branches"])
def test_rollout_with_ends_equals_separate_episodes(spec):
    lengths, steps = [3, 5, 4], 11
    tensors = tensors_of(spec, ALONE, (16, 12))
    environment = Story(spec, lengths)
    found = collect(environment, Policy(spec, ALONE, tensors), steps, 1, 2, 0).tensors
    for index, kind in enumerate(spec.classes):
        head = distribution(kind)
        for position, agent in enumerate(kind.agents):
            taken = found[f"u00000/action/{index}"][position]
            probable = found[f"u00000/log_probability/{index}"][position]
            log_std = tensors.get(f"policy/g{agent:02d}/log_std")
            for copy, length in enumerate(lengths):
                for episode in episodes_of(length, steps):
                    seen = environment.values[index][position][episode, copy : copy + 1]
                    outputs = in_torch(tensors, ALONE, agent, seen)[:, 0]
                    expected = head.log_probability(outputs, log_std, taken[episode, copy])
                    np.testing.assert_allclose(probable[episode, copy], expected, atol=1e-4)


@pytest.mark.parametrize("spec", [SPEC, NUMBERS], ids=["choices", "numbers and branches"])
def test_an_evaluation_remembers_from_step_to_step(spec):
    lengths = [3, 6, 4]
    tensors = tensors_of(spec, SHARED, (16, 12))
    environment = Story(spec, lengths)
    found = play(environment, Policy(spec, SHARED, tensors), np.random.default_rng(0), greedy=True, count=3)
    expected = np.zeros((3, 3))
    for index, kind in enumerate(spec.classes):
        head = distribution(kind)
        for position, agent in enumerate(kind.agents):
            outputs = in_torch(tensors, SHARED, agent, environment.values[index][position])
            done = head.to_environment(head.greedy(outputs)).reshape(len(outputs), 3, -1).sum(axis=-1)
            for copy, length in enumerate(lengths):
                expected[copy, agent] = done[:length, copy].sum()
    # Environments end in the order of their lengths.
    np.testing.assert_allclose(found.agent_returns(), expected[[0, 2, 1]], rtol=1e-5)


@pytest.mark.parametrize(("marks", "within"), [((), np.tanh), (("clip",), lambda raw: np.clip(raw, -1, 1))])
def test_actions_are_recorded_drawn_and_played_bounded(marks, within):
    tensors = tensors_of(NUMBERS, ALONE, (8,), recurrent=False)
    tensors |= {f"policy/g{agent:02d}/{mark}": np.zeros(0, np.float32) for mark in marks for agent in (0, 2)}
    environment = Story(NUMBERS, [4, 5])
    found = collect(environment, Policy(NUMBERS, ALONE, tensors), 7, 1, 2, 3).tensors
    raw, chosen = found["u00003/action/0"], found["u00003/action/1"]
    assert (raw.dtype, raw.shape) == (np.float32, (2, 7, 2, 2))
    assert (chosen.dtype, chosen.shape) == (np.int32, (1, 7, 2, 2))
    assert np.abs(raw).max() > 1  # draws are not yet squashed
    assert found["u00003/log_probability/0"].shape == (2, 7, 2)
    for t, (numbers, choices) in enumerate(environment.played):
        expected = np.array([-1.0, 0.0]) + (within(raw[:, t]) + 1) / 2 * np.array([2.0, 8.0])
        assert numbers.dtype == np.float32
        np.testing.assert_allclose(numbers, expected.swapaxes(0, 1), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(choices, chosen[:, t].swapaxes(0, 1))


TWO = EnvSpec(("a", "b", "c"), (AgentClass("x", (0, 1, 2), 6, 2, low=(-1.0, 0.0), high=(1.0, 8.0)),), horizon=1)


def test_noisy_deterministic_policies_stay_between_one_and_minus():
    tensors = tensors_of(TWO, ALONE, (8,), recurrent=False, gaussian=False)
    policy, environment = Policy(TWO, ALONE, tensors), Story(TWO, [4, 5])
    plain = collect(environment, policy, 20, 1, 2, 0).tensors
    found = collect(environment, policy, 20, 1, 2, 0, Behaviour(kind="noise", amount=0.5)).tensors
    assert not any("log_probability" in name for name in [*plain, *found])
    assert np.abs(found["u00000/action/0"]).max() == 1.0
    for position, agent in enumerate(TWO.classes[0].agents):
        hidden = environment.values[0][position, :20]
        for layer in range(2):
            group = f"policy/g{agent:02d}"
            hidden = np.tanh(hidden @ tensors[f"{group}/w{layer}"] + tensors[f"{group}/b{layer}"])
        np.testing.assert_allclose(plain["u00000/action/0"][position], hidden, atol=1e-5)
    assert np.abs(found["u00000/action/0"] - plain["u00000/action/0"]).std() > 0.1


def test_agents_that_explore_leave_no_probabilities():
    policy = Policy(SPEC, ALONE, tensors_of(SPEC, ALONE, (8,)))
    found = collect(Story(SPEC, [4]), policy, 8, 1, 2, 0, Behaviour(kind="epsilon", amount=0.5)).tensors
    assert not any("log_probability" in name for name in found)
    assert found["u00000/action/0"].dtype == np.int32


def test_player_refuses_behaviour_that_agents_lack():
    policy = Policy(NUMBERS, ALONE, tensors_of(NUMBERS, ALONE, (8,)))
    with pytest.raises(BadRequest, match="the behaviour epsilon is for agents that make one choice only"):
        Player(policy, 4, behaviour=Behaviour(kind="epsilon", amount=0.1))


def without(tensors, name):
    return {key: array for key, array in tensors.items() if key != name}


REFUSED = {
    "wide log_std": ({"policy/g00/log_std": np.zeros(3, np.float32)}, r"of a has log_std \(3,\); it acts in 2 numbers"),
    "numbers for choices": ({"policy/g01/log_std": np.zeros(5, np.float32)}, "the policy of b acts in numbers"),
    "other inputs": ({"policy/g01/w0": np.zeros((7, 16), np.float32)}, "the policy of b takes 7 numbers and knows 5"),
    "other outputs": (
        {"policy/g00/w1": np.zeros((12, 4), np.float32), "policy/g00/b1": np.zeros(4, np.float32)},
        "knows 4 actions; the task gives 6 numbers and 2 actions",
    ),
    "a unit of another width": ({"policy/g00/gru_h": np.zeros((12, 30), np.float32)}, "the policy of a is no network"),
    "a layer out of line": (
        {"policy/g01/w0": np.zeros((4, 9), np.float32), "policy/g01/b0": np.zeros(9, np.float32)},
        "the policy of b is no network: its layer 1 does not fit what is before it",
    ),
    "a bias of another width": ({"policy/g01/gru_bx": np.zeros(3, np.float32)}, "the policy of b is no network"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_network_of_other_shape_is_refused_by_name(name):
    changes, message = REFUSED[name]
    with pytest.raises(BadRequest, match=message):
        Policy(NUMBERS, ALONE, tensors_of(NUMBERS, ALONE, (16, 12)) | changes)


def test_networks_of_one_class_must_be_alike():
    tensors = tensors_of(NUMBERS, ALONE, (16, 12))
    for other in (
        without(tensors, "policy/g02/log_std"),
        tensors | {"policy/g02/relu": np.zeros(0, np.float32)},
        tensors | {n: a for n, a in tensors_of(NUMBERS, ALONE, (16, 9)).items() if "g02" in n},
    ):
        with pytest.raises(BadRequest, match="the policies of a and c are networks of different shapes"):
            Policy(NUMBERS, ALONE, other)


@pytest.mark.parametrize("name", ["gru_h", "b1", "w0"])
def test_network_with_missing_part_is_refused_by_name(name):
    tensors = tensors_of(NUMBERS, ALONE, (16, 12))
    with pytest.raises(BadRequest, match="the task's policies hold no network for group g01"):
        Policy(NUMBERS, ALONE, without(tensors, f"policy/g01/{name}"))
