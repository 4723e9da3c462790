"""Default settings by family of environments.

The defaults of `marless.coordinator.config.schema` were tuned on the Multi-Particle tasks, which give rewards at every
step. Other values work if rewards come late, or if every environment is a separate program. docs/data/algorithms.toml
has the reasons.
"""

from collections.abc import Mapping
from typing import Any

from marless.functions.environments import task_names
from marless.functions.environments.task_names import Settings

# Our engines step all environments at once. Others are stepped one after another. With them, 3,200 episodes of
# level-based foraging took longer than the evaluator's 60 s, and a run must not fail at its end.
_STEPPED: Settings = {"evaluation.episodes_per_invocation": 320, "functions.evaluator.timeout_s": 300.0}
# A victory is rewarded at the end of a battle of 30 to 150 steps. Equal units share networks in all published settings.
# An agent that learns from its own reward alone learns to run away. With one-step targets QMIX's values rose far above
# the rewards of battles and it did not learn. The cause is unknown.
_BATTLES: Settings = {
    "sharing.rule": "all",
    "algorithm.gamma": 0.99,
    "algorithm.reward": "team",
    "algorithm.n_step": 20,
}
# Every environment is a StarCraft process, which takes seconds to start. Yu et al. (2022) use 8 of them, Samvelyan et
# al. (2019) 32 test episodes.
_STARCRAFT: Settings = {
    **_BATTLES,
    **_STEPPED,
    "actors.num_envs": 8,
    "evaluation.episodes": 32,
    "evaluation.final_episodes": 320,
    "evaluation.episodes_per_invocation": 8,
    "functions.actor.timeout_s": 300.0,
}
# Episodes have up to 900 steps of physics or of rendering. 64 episodes took 118 to 589 s, so 8 take 74 s at most.
_SLOW: Settings = {
    **_STEPPED,
    "actors.num_envs": 8,
    "evaluation.episodes_per_invocation": 8,
    "functions.actor.timeout_s": 300.0,
}
# Its reset keeps state of the last episode, so without a rebuild results would depend on the packing of the work.
_REMADE: Settings = {**_SLOW, "task.options.rebuild": True}

# Published settings share networks among equal agents. Random agents collect food together once in thousands of steps,
# so value methods explore for longer and replay it more often. With a longer horizon their values stayed above the
# possible return. Rounds of 64 episodes have twice the steps of the Multi-Particle tasks' and as many updates per step.
_FORAGING: Settings = {
    "sharing.rule": "all",
    "algorithm.gamma": 0.95,
    "algorithm.updates_per_round": 128,
    "algorithm.epsilon_steps": 200_000,
    "algorithm.priority": 0.6,
}
# QMIX's default values were tuned on rewards at every step. With them it collected no food. Which of the three changes
# it needs was not tested.
_MIXED_FORAGING: Settings = {"algorithm.huber_delta": 1000.0, "algorithm.max_grad_norm": 10.0, "algorithm.tau": 0.01}
# A soup pays after some dozen steps, and published self-play shares a network. An episode has 400 steps. With eight of
# them a round is about as long as a round of the Multi-Particle tasks. Kitchens have no randomness, so a short
# evaluation is enough.
_KITCHENS: Settings = {
    "actors.num_envs": 8,
    "evaluation.episodes": 16,
    "evaluation.final_episodes": 160,
    "sharing.rule": "all",
    "algorithm.gamma": 0.99,
}

# Rewards come at every step. With 0.99, separate networks stay on a plateau for a time that depends on the seed.
_NEAR: Settings = {"algorithm.gamma": 0.9}
# The sizes of all published curves of these tasks. An episode of 25 steps takes a fraction of a millisecond.
_PARTICLES: Settings = {**_NEAR, "evaluation.episodes": 320, "evaluation.final_episodes": 3200}

# By prefix of the task name: the first match counts. The empty prefix matches all other tasks.
FAMILIES: Mapping[str, Settings] = {
    "lbf/": _FORAGING,
    "matrix/": _NEAR,
    "mpe/": _PARTICLES,
    "toy/": _NEAR,
    # Agents with equal spaces have hidden roles. The rule `roles` is measured by them.
    "roles/": {**_NEAR, **_STEPPED},
    # Rewards are rare.
    "rware/": {"sharing.rule": "all", "algorithm.gamma": 0.99},
    "overcooked/": _KITCHENS,
    "smac/": _STARCRAFT,
    "smacv2/": _STARCRAFT,
    "smax/": _BATTLES,
    "pettingzoo:pettingzoo.sisl": _SLOW,
    "pettingzoo:pettingzoo.butterfly.knights_archers_zombies": _REMADE,
    "pettingzoo:pettingzoo.butterfly": _SLOW,
    "": _STEPPED,
}
# Stronger settings, by prefix and algorithm.
FAMILIES_WITH: Mapping[str, Mapping[str, Settings]] = {"lbf/": {"qmix": _MIXED_FORAGING}}

# PPO's step size and entropy bonus, which do better where they begin larger and fall to 0, measured with at most FEW
# agents. Normalised observations freed seeds of speaker-listener that had not learned to speak.
FALLING: Settings = {"lr_schedule": "linear", "ent_coef": 0.03, "ent_schedule": "linear"}
_ANNEALING: Settings = {"lr": 2e-3, **FALLING}
FEW = 5
PPO_TASKS: Mapping[str, Settings] = {
    "mpe/simple_spread": _ANNEALING,
    "mpe/simple_speaker_listener": {**_ANNEALING, "normalise_observations": True},
}

# IPPO with one attention network (docs/results/entities.md). Nobody has measured parts of these settings, other numbers
# of agents, or options of the task. MAPPO returns -31 with them, as its critics attend to agents.
DEFAULT_RUNS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "mpe/simple_spread": {
        "algorithm": {"name": "ippo", "network": "attention", "hidden": (32, 64), "num_minibatches": 24, **FALLING},
        "sharing": {"rule": "all", "identity": False},
        "stop": {"rounds": 150},
    }
}


def family(task: str) -> str:
    """Return the prefix of the task's family in `FAMILIES` or in another package, '' for all other tasks."""
    prefix = next(prefix for prefix in FAMILIES if task.startswith(prefix)) or task_names.prefix_of(task)
    return prefix if prefix in FAMILIES or prefix not in task_names.FAMILIES.built_in else ""


def family_defaults(prefix: str, algorithm: str) -> tuple[Settings, Settings]:
    """Return the defaults of a family with an algorithm, and with all algorithms.

    Raises `BadRequest` if the package of the family cannot be loaded.
    """
    if prefix in FAMILIES:
        return FAMILIES_WITH.get(prefix, {}).get(algorithm, {}), FAMILIES[prefix]
    other = task_names.FAMILIES[prefix]
    return other.defaults_with.get(algorithm, {}), other.defaults
