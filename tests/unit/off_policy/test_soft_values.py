"""The overestimation of soft values, worked out by hand."""

import numpy as np
import pytest

from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.metrics import OWN
from marless.functions.algorithms.specification import Share
from marless.functions.algorithms.stage import Context
from marless.functions.data.replay_buffer import ReplayBuffer, RolloutKey
from marless.functions.environments.base import AgentClass, EnvSpec
from marless.functions.learner import stages
from marless.functions.messages.team import Team
from marless.functions.randomness import generator

SEED, ROUND, STEPS = 3, 2, 4
TEMPERATURES = {"g00": 0.2, "g01": 0.4}
# Mean, mean square, weight and level: rewards are divided by 2, and a value in units of reward is 2 outputs + 1.
NORMALISER = [0.0, 4.0, 1.0, 1.0]
# The lesser critic gives 2 * 0.1 + 1, the lesser target 2 * 0.7 + 1.
OUTPUTS, VALUE, TAIL = {"critic": 0.3, "twin": 0.1, "critic_target": 0.7, "twin_target": 0.9}, 1.2, 2.4
EACH = pytest.mark.parametrize("name", ["isac", "masac"])
EACH_KIND = pytest.mark.parametrize("numbers", [False, True], ids=["choices", "numbers"])


def overestimation(name, numbers, **own):
    """The metric of groups a and b after two episodes of two steps. A time limit cuts the first step.

    Agent a earns 1, 2, 4 and 8, and agent b 3 and, as it dies with its first step, nothing, then 5 and 6. All actions
    are equally probable. Numbers are the tanh of standard normal ones.
    """
    kind = {"actions": 1, "low": (0.0,), "high": (1.0,)} if numbers else {"actions": 3}
    spec, team = EnvSpec(("a", "b"), (AgentClass("x", (0, 1), 1, **kind),), 2), Team(groups=(0, 1))
    shape = (2, STEPS, 1)
    made = {
        "observation/0": np.ones((*shape, 1)),
        "action/0": np.zeros((*shape, 1)) if numbers else np.zeros(shape, np.int64),
        "reward": np.array([[1.0, 2, 4, 8], [3, 0, 5, 6]])[..., None],
        "terminated": np.array([[0, 0, 0, 1], [1, 0, 0, 1]], bool)[..., None],
        "alive": np.array([[1, 1, 1, 1], [1, 0, 1, 1]], bool)[..., None],
        "ended": np.array([0, 1, 0, 1], bool)[:, None],
        "cut": np.array([[1, 0]]),
        "cut_observation/0": np.ones((2, 1, 1)),
    }
    algorithm = algorithms.algorithm(name)
    code = algorithms.implementation(algorithm)
    settings = {"hidden": [1], "updates_per_round": 1, "batch_size": 4, "gamma": 0.5, **own}
    config = algorithms.configuration(algorithm, settings)
    tensors = {}
    for group in (0, 1):
        tensors |= code.initialise(spec, team, config, SEED, group)
    tensors = {key: np.zeros(array.shape, array.dtype) for key, array in tensors.items()}
    for group, temperature in TEMPERATURES.items():
        tensors |= {f"{part}/{group}/b1": np.array([output]) for part, output in OUTPUTS.items()}
        tensors |= {f"temperature/{group}/log": np.log([temperature]), f"normaliser/{group}": np.array(NORMALISER)}
    replay_buffer = ReplayBuffer(spec)
    replay_buffer.load([RolloutKey(ROUND, 0, "")], lambda wanted: {wanted[0]: made})
    batch = replay_buffer.segments_from(np.arange(1), STEPS)
    context = Context(spec, team, config, SEED, ROUND, batch, tensors, replay_buffer)
    share = Share([stage.name for stage in algorithm.stages], [0, 1], range(1))
    found = stages.run(algorithm, code, context, share).metrics
    return [found[f"critic/overestimation/{group}"] for group in TEMPERATURES]


def entropies(numbers, group):
    """The entropy after every step: ln 3 nats of a choice of three, and -log p of a number drawn again.

    The number is tanh(u), so -log p = ½u² + ½ ln 2π + ln(1 - tanh²u).
    """
    if not numbers:
        return np.full(STEPS, np.log(3))
    drawn = generator(SEED, ROUND, f"sample_after{OWN}", 0, group).standard_normal(STEPS, dtype=np.float32)
    return drawn**2 / 2 + np.log(2 * np.pi) / 2 + np.log(1 - np.tanh(drawn) ** 2)


@pytest.mark.parametrize(
    ("reward", "of_a", "of_b"),
    [
        # In units of reward a nat is worth 2 * 0.2 to a, half of it one step later; where an agent ends there is none.
        # a: 8 in the last step, 4 + 0.2 H + 8 / 2 before it; 2 + 0.2 H + 2.4 / 2 in the step that the time limit cuts,
        # and 1 + 0.2 H + half of that before it. b: 6, 5 + 0.4 H + 6 / 2, and 3.
        ("own", (1, 2, 8, 8), (3, 8, 6)),
        # The team earns 4, 2, 9 and 14, to the end of each episode, and b has no entropy once it is dead.
        ("team", (4, 2, 16, 14), (4 + (2 + TAIL / 2) / 2, 2 + TAIL / 2, 16, 14)),
    ],
)
@EACH_KIND
@EACH
def test_soft_values_count_rewards_and_later_entropies(name, numbers, reward, of_a, of_b):
    a, b = entropies(numbers, 0), entropies(numbers, 1)
    first, cut, before, last = of_a
    cut += 0.2 * a[1] + TAIL / 2
    of_a = [first + 0.2 * a[0] + cut / 2, cut, before + 0.2 * a[2], last]
    *others, before, last = of_b
    expected = [VALUE - np.mean(of_a), VALUE - np.mean([*others, before + 0.4 * b[2], last])]
    assert overestimation(name, numbers, reward=reward) == pytest.approx(expected, rel=1e-5)


@EACH
def test_terminal_limits_add_neither_value_nor_entropy(name):
    # The step that the time limit cuts is worth 2 to a, and the one before it 1 + 0.2 ln 3 + 2 / 2.
    of_a, nat = [2 + 0.2 * np.log(3), 2, 8 + 0.2 * np.log(3), 8], 0.4 * np.log(3)
    expected = [VALUE - np.mean(of_a), VALUE - np.mean([3, 8 + nat, 6])]
    assert overestimation(name, False, reward="own", time_limit="terminal") == pytest.approx(expected, rel=1e-5)
