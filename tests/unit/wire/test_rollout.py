"""The records of actors and the counts of evaluations, with a scripted environment and with the toy."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from task_fields import changed, make_task

from marless.functions.actor.handler import sample
from marless.functions.actor.rollout import collect
from marless.functions.algorithms.ppo import mappo
from marless.functions.algorithms.ppo.specs import MappoConfig
from marless.functions.codec import encode, reference
from marless.functions.environments import registry
from marless.functions.environments.base import AgentClass, EnvironmentFault, EnvSpec, EnvTask, Observation, Step
from marless.functions.episode_returns import Episodes, summary
from marless.functions.errors import BadRequest
from marless.functions.evaluator.handler import play
from marless.functions.messages.actor import Behaviour, SampleTask
from marless.functions.messages.exchange import TaskHeader
from marless.functions.messages.team import Team
from marless.functions.policies import Policy
from marless.functions.randomness import generator

TOY = EnvTask(name="toy/signal", agents=3, options={"masked": True, "elimination": True, "mixed": True, "horizon": 4})
TEAM = Team(groups=(0, 1, 2))


class Scripted:
    """Two agents. Environment e plays episodes of `lengths[e]` steps. The observation is (100 episode + step), and
    agent i gets (i + 1) times the number of the step."""

    def __init__(self, lengths):
        self.num_envs, self.lengths = len(lengths), np.array(lengths)
        self.spec = EnvSpec(("a", "b"), (AgentClass("x", (0, 1), 1, 2),), horizon=max(lengths))

    def reset(self, rng):
        self.episode, self.at = np.zeros(self.num_envs), np.zeros(self.num_envs)
        return self._seen()

    def step(self, actions):
        self.at += 1
        rewards = self.at[:, None] * np.array([1.0, 2.0])
        ended = self.at == self.lengths
        final, env_metrics = self._seen(), {"steps": self.at.copy()}
        self.episode[ended] += 1
        self.at[ended] = 0
        terminated = np.zeros((self.num_envs, 2), bool)
        return Step(self._seen(), rewards, terminated, ended, ended, final if ended.any() else None, env_metrics)

    def close(self):
        pass

    def _seen(self):
        values = np.repeat(100 * self.episode + self.at, 2).reshape(-1, 2, 1)
        return Observation((values.astype(np.float32),), np.ones((self.num_envs, 2), bool))


def zero_policy(spec, team):
    shapes = {
        team.groups[agent]: (kind.observation_size, kind.actions) for kind in spec.classes for agent in kind.agents
    }
    return Policy(
        spec,
        team,
        {f"policy/g{g:02d}/w0": np.zeros(shape, np.float32) for g, shape in shapes.items()}
        | {f"policy/g{g:02d}/b0": np.zeros(shape[1], np.float32) for g, shape in shapes.items()},
    )


def toy_weights(seed=3):
    """Random policies, sharpened so that they are far from uniform."""
    spec, config = registry.spec(TOY), MappoConfig(hidden=(8,))
    tensors = {}
    for group in range(3):
        tensors |= mappo.initialise(spec, TEAM, config, seed, group)
    return {name: tensor * (100 if "/w1" in name else 1) for name, tensor in tensors.items() if "policy/" in name}


def toy_rollout(rollout=0, steps=9, num_envs=6, seed=1, round_=2):
    environment = registry.make(TOY, num_envs)
    return collect(environment, Policy(environment.spec, TEAM, toy_weights()), steps, seed, round_, rollout)


def same_bytes(left, right):
    return sorted(left) == sorted(right) and all(left[name].tobytes() == right[name].tobytes() for name in left)


class Shelf:
    def __init__(self, body):
        self.body = body

    def get(self, key, size=None):
        return self.body

    def put(self, key, body):
        raise AssertionError("sampling itself stores nothing")


def sample_rollouts(rollouts, **changes):
    body = encode(toy_weights(), TaskHeader(task="t"))
    task = make_task(SampleTask,
        id="t", run="r", round=2, output="o", timeout_s=1, seed=1, environment=TOY, team=TEAM,
        policies=(reference("k", body),), rollouts=rollouts, num_envs=6, rollout_length=9,
    )  # fmt: skip
    objects, reply = sample(changed(task, **changes), Shelf(body))
    return objects[-1].tensors, reply


def test_cuts_and_rollout_ends_keep_the_next_observation():
    environment = Scripted([3, 5])
    tensors = collect(environment, zero_policy(environment.spec, Team(groups=(0, 1))), 5, 1, 0, 7).tensors
    # Environment 0 ends with step 2 and is at step 2 of its second episode when the rollout ends. Environment 1 ends
    # with the rollout.
    np.testing.assert_array_equal(tensors["u00007/observation/0"][1, :, :, 0].T, [[0, 1, 2, 100, 101], [0, 1, 2, 3, 4]])
    np.testing.assert_array_equal(tensors["u00007/cut"], [[2, 0], [4, 1], [4, 0]])
    np.testing.assert_array_equal(tensors["u00007/cut_observation/0"][1, :, 0], [3, 5, 102])
    np.testing.assert_array_equal(tensors["u00007/ended"].T, [[0, 0, 1, 0, 0], [0, 0, 0, 0, 1]])
    np.testing.assert_array_equal(tensors["u00007/reward"][1].T, [[2, 4, 6, 2, 4], [2, 4, 6, 8, 10]])


def test_returns_are_reward_sums_of_finished_episodes():
    environment = Scripted([3, 5])
    rollout = collect(environment, zero_policy(environment.spec, Team(groups=(0, 1))), 6, 1, 0, 0)
    # Environment 0: 1 + 2 + 3 = 6 for agent 0, twice. Environment 1: 15. Agent 1 gets double. Ends after steps 3, 5, 6.
    np.testing.assert_array_equal(rollout.episodes.agent_returns(), [[6, 12], [15, 30], [6, 12]])
    assert summary([rollout.episodes]) == ((18.0, 45.0, 18.0), (9.0, 18.0), {"steps": 11 / 3})


class Wrong(Scripted):
    """In step 3 agent 0 is gone without an end, comes back, or terminates by a half."""

    def __init__(self, how):
        super().__init__([6])
        self.how = how

    def step(self, actions):
        step = super().step(actions)
        alive, terminated, at = step.observation.alive, step.terminated, self.at[0]
        if self.how == "vanishes" or self.how == "returns":
            terminated[0, 0] = self.how == "returns" and at == 2
            alive[0, 0] = at != 2 if self.how == "returns" else at < 3
        if self.how == "halves":
            return replace(step, terminated=terminated + 0.5)
        return replace(step, rewards=step.rewards * 1e300) if self.how == "pays" else step


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("vanishes", "environment 0, step 3: agent 0 is gone, but did not terminate before it"),
        ("returns", "environment 0, step 3: agent 0 is alive, but was gone before it"),
        ("halves", "terminated is of float64, not of booleans"),
        ("pays", "rollout 0: reward holds NaN or infinity"),
    ],
)
def test_agent_information_of_environment_is_checked_while_playing(how, says, recwarn):
    environment = Wrong(how)
    with pytest.raises(EnvironmentFault, match=says):
        collect(environment, zero_policy(environment.spec, Team(groups=(0, 1))), 5, 1, 0, 0)
    assert not recwarn.list


def test_return_not_finite_is_fault_of_environment():
    environment = Wrong("pays")
    environment.step, pay = lambda actions: replace(pay(actions), rewards=np.full((1, 2), np.inf)), environment.step
    policy = zero_policy(environment.spec, Team(groups=(0, 1)))
    with pytest.raises(EnvironmentFault, match="do not add up to a finite number"):
        play(environment, policy, np.random.default_rng(0), True, 1).agent_returns()


def test_only_same_address_gives_same_bytes():
    first = toy_rollout().tensors
    assert same_bytes(first, toy_rollout().tensors)
    others = toy_rollout(seed=2).tensors, toy_rollout(round_=3).tensors
    for other in others:
        assert not same_bytes(first, other)
    rollout = {name.replace("u00001", "u00000"): array for name, array in toy_rollout(rollout=1).tensors.items()}
    assert not same_bytes(first, rollout)


def test_actions_are_drawn_anew_for_every_seed_round():
    taken = []
    for seed, round_, rollout in ((1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1)):
        environment = Scripted([8, 8])
        collected = collect(environment, zero_policy(environment.spec, Team(groups=(0, 1))), 40, seed, round_, rollout)
        taken.append(collected.tensors[f"u{rollout:05d}/action/0"].tobytes())
    assert len(set(taken)) == 4


def test_a_rollout_shorter_than_an_episode_is_refused():
    with pytest.raises(
        BadRequest, match=r"actors\.rollout_length is 3, shorter than an episode of toy/signal \(4 steps\)"
    ):
        sample_rollouts((0,), rollout_length=3)


def test_agents_explore_as_task_says_within_masks():
    # Two of agent 0's three actions are legal while it is in play, so a random choice is the best one half of the time.
    plain, _ = sample_rollouts((0,), behaviour=Behaviour(kind="epsilon", amount=0.0), rollout_length=400)
    free, _ = sample_rollouts((0,), behaviour=Behaviour(kind="epsilon", amount=1.0), rollout_length=400)
    weights = toy_weights()
    for tensors, share in ((plain, 1.0), (free, 0.5)):
        assert not any("log_probability" in name for name in tensors)
        seen, legal, taken, alive = (
            tensors[f"u00000/{name}"] for name in ("observation/0", "mask/0", "action/0", "alive")
        )
        assert np.take_along_axis(legal, taken[..., None].astype(int), axis=-1).all()
        hidden = np.tanh(seen[0] @ weights["policy/g00/w0"] + weights["policy/g00/b0"])
        values = hidden @ weights["policy/g00/w1"] + weights["policy/g00/b1"]
        best = np.where(legal[0], values, -np.inf).argmax(axis=-1) == taken[0]
        in_play = alive[0]
        assert in_play.sum() > 500
        assert abs(best[in_play].mean() - share) <= 5 * np.sqrt(share * (1 - share) / in_play.sum())


def test_recorded_log_probabilities_match_recorded_observations_and_actions():
    tensors, weights = toy_rollout().tensors, toy_weights()
    for index, kind in enumerate(registry.spec(TOY).classes):
        for position, agent in enumerate(kind.agents):
            seen, legal, taken, found = (
                torch.tensor(tensors[f"u00000/{name}/{index}"][position])
                for name in ("observation", "mask", "action", "log_probability")
            )
            w0, b0, w1, b1 = (torch.tensor(weights[f"policy/g{agent:02d}/{name}"]) for name in ("w0", "b0", "w1", "b1"))
            logits = torch.where(legal, torch.tanh(seen @ w0 + b0) @ w1 + b1, -torch.inf)
            wanted = torch.distributions.Categorical(logits=logits).log_prob(taken)
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), atol=1e-5)


def test_replayed_actions_give_recorded_observations_and_rewards():
    tensors = toy_rollout(rollout=3).tensors
    environment = registry.make(TOY, 6)
    seen = environment.reset(generator(1, 2, "environment", 3))
    cuts = []
    for t in range(9):
        actions = []
        for index in range(2):
            np.testing.assert_array_equal(
                tensors[f"u00003/observation/{index}"][:, t], seen.values[index].swapaxes(0, 1)
            )
            np.testing.assert_array_equal(tensors[f"u00003/mask/{index}"][:, t], seen.masks[index].swapaxes(0, 1))
            actions.append(tensors[f"u00003/action/{index}"][:, t].T)
        np.testing.assert_array_equal(tensors["u00003/alive"][:, t], seen.alive.T)
        np.testing.assert_array_equal(tensors["u00003/state"][t], seen.state)
        step = environment.step(tuple(actions))
        np.testing.assert_array_equal(tensors["u00003/reward"][:, t], step.rewards.T.astype(np.float32))
        np.testing.assert_array_equal(tensors["u00003/terminated"][:, t], step.terminated.T)
        np.testing.assert_array_equal(tensors["u00003/ended"][t], step.ended)
        follows = step.truncated | ~step.ended if t == 8 else step.truncated
        cuts += [(t, e) for e in np.flatnonzero(follows)]
        for place, (at, copy) in enumerate(tensors["u00003/cut"]):
            if at == t:
                after = step.final if step.ended[copy] else step.observation
                for index in range(2):
                    for name, expected in (("observation", after.values[index]), ("mask", after.masks[index])):
                        found = tensors[f"u00003/cut_{name}/{index}"][:, place]
                        np.testing.assert_array_equal(found, expected[copy])
        seen = step.observation
    # Terminated environments need and keep no next observation.
    assert sorted(map(tuple, tensors["u00003/cut"].tolist())) == cuts
    assert cuts[0][0] < 8 and len(cuts) < 12  # a time limit, and terminated environments


@pytest.mark.parametrize("greedy", [True, False])
def test_evaluation_counts_only_first_episode_per_environment(greedy):
    environment = Scripted([2, 5, 3])
    policy = zero_policy(environment.spec, Team(groups=(0, 1)))
    episodes = play(environment, policy, np.random.default_rng(0), greedy, 3)
    # 1 + 2 = 3, 15 and 6 for agent 0, in the order of their ends. Environments 0 and 2 play on uncounted.
    np.testing.assert_array_equal(np.sort(episodes.agent_returns(), axis=0), [[3, 6], [6, 12], [15, 30]])
    assert sorted(episodes.env_metrics["steps"][0]) == [2, 3, 5]


def test_evaluation_of_fewer_episodes_is_unbiased_by_length():
    environment = Scripted([5, 2, 3])
    episodes = play(environment, zero_policy(environment.spec, Team(groups=(0, 1))), np.random.default_rng(0), True, 2)
    # The first two environments last 5 and 2 steps. The third ends second and does not count.
    assert episodes.env_metrics["steps"][0] == [2, 5]


def test_first_returns_are_in_environment_order():
    """Agent a gets 1 to 3, 1, and 1 to 2 in the first episodes. The second environment ends two more."""
    environment, episodes = Scripted([3, 1, 2]), Episodes(3, 2)
    environment.reset(None)
    for _ in range(3):
        episodes.add(environment.step(None))
    assert episodes.first_returns().tolist() == [[6, 12], [1, 2], [3, 6]]


def test_metric_of_no_counted_episode_is_omitted():
    class Sparing(Scripted):
        """Reports the metric only of episodes with two steps."""

        def step(self, actions):
            step = super().step(actions)
            return replace(
                step, env_metrics=step.env_metrics if (step.env_metrics["steps"] == 2)[step.ended].any() else {}
            )

    environment = Sparing([5, 3, 2])
    policy = zero_policy(environment.spec, Team(groups=(0, 1)))
    found = summary([play(environment, policy, np.random.default_rng(0), True, 2)])
    assert (len(found.returns), found.env_metrics) == (2, {})


def test_a_greedy_evaluation_draws_start_states_only():
    environment = registry.make(TOY, 40)
    policy = Policy(environment.spec, TEAM, toy_weights())
    first, again, other = (
        play(environment, policy, np.random.default_rng(seed), greedy=True, count=40).agent_returns()
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    sampled = play(environment, policy, np.random.default_rng(1), greedy=False, count=40).agent_returns()
    assert not np.array_equal(first, sampled)
