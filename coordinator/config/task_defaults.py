"""What a family of tasks is trained with where the user does not say otherwise.

The defaults of `coordinator.config.schema` were made on the Multi-Particle tasks, whose rewards come at every step.
Where rewards come late, or a copy is a program of its own, other values work; docs/data/algorithms.toml has the
reasons.
"""

from collections.abc import Collection, Mapping
from typing import Any

Settings = Mapping[str, float | str | bool]

# Engines of ours step all copies at once. Elsewhere copies are stepped one after another: 3,200 episodes of level-based
# foraging took more than the 60 s that an evaluator has, and a run must not fail at its end.
_STEPPED: Settings = {"evaluation.episodes_per_invocation": 320, "functions.evaluator.timeout_s": 300.0}
# A victory is paid at the end of a battle of 30 to 150 steps, and equal units share in all published settings; who
# counts its own reward alone learns to run. With targets of one step QMIX's values rose far above what battles paid
# and it did not learn; why was not found out beyond that.
_BATTLES: Settings = {
    **_STEPPED,
    "sharing.rule": "all",
    "algorithm.gamma": 0.99,
    "algorithm.reward": "team",
    "algorithm.n_step": 20,
}
# Every copy is a StarCraft process, which takes seconds to start; 8 are those of Yu et al. (2022), 32 test episodes
# those of Samvelyan et al. (2019).
_STARCRAFT: Settings = {
    **_BATTLES,
    "actors.num_envs": 8,
    "evaluation.episodes": 32,
    "evaluation.final_episodes": 320,
    "evaluation.episodes_per_invocation": 8,
    "functions.actor.timeout_s": 300.0,
}
# Rewards are rare: Papoudakis et al. (2021).
_RARE: Settings = {**_STEPPED, "sharing.rule": "all", "algorithm.gamma": 0.99}
# Food that is gathered together is found once in thousands of random steps, so that value methods look for longer and
# replay it more often; with a longer horizon their values stayed above what there is to gather. Rounds of 64 episodes
# have twice the steps of the Multi-Particle tasks' and as many updates for each of them.
_FORAGING: Settings = {
    **_RARE,
    "algorithm.gamma": 0.95,
    "algorithm.updates_per_round": 128,
    "algorithm.epsilon_steps": 200_000,
    "algorithm.priority": 0.6,
}
# Episodes of 500 steps are long: 64 of them took 35 of the 60 s that an actor has.
_WAREHOUSES: Settings = {**_RARE, "functions.actor.timeout_s": 300.0}
# Episodes of up to 900 steps, each of which is physics or a picture: 64 of them took 118 to 589 s, so that 8 take 74 at
# most. An evaluation as long as that of other tasks would take longer than the training between two of them.
_SLOW: Settings = {
    **_STEPPED,
    "actors.num_envs": 8,
    "evaluation.episodes": 16,
    "evaluation.final_episodes": 160,
    "evaluation.episodes_per_invocation": 8,
    "functions.actor.timeout_s": 300.0,
}
# Its reset leaves something of the last episode behind, which another packing of the same work would not.
_REMADE: Settings = {**_SLOW, "task.options.rebuild": True}

# By how the names of their tasks start, the first that fits; the last are all others.
FAMILIES: Mapping[str, Settings] = {
    "matrix/": {},
    "mpe/": {},
    "toy/": {},
    "smac/": _STARCRAFT,
    "smacv2/": _STARCRAFT,
    "smax/": _BATTLES,
    "lbf/": _FORAGING,
    "rware/": _WAREHOUSES,
    "pettingzoo:pettingzoo.sisl": _SLOW,
    "pettingzoo:pettingzoo.butterfly.knights_archers_zombies": _REMADE,
    "pettingzoo:pettingzoo.butterfly": _SLOW,
    "": _STEPPED,
}
# What one algorithm has beside its family's, by both. The values of QMIX were made where every step is paid, and with
# them it gathered nothing; which of the three it needs was not looked at.
ALONE: Mapping[tuple[str, str], Settings] = {
    ("lbf/", "qmix"): {"algorithm.huber_delta": 1000.0, "algorithm.max_grad_norm": 10.0, "algorithm.tau": 0.01},
}


def fill_defaults(document: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The document of a configuration with its task family's value for every key that it leaves open, of those `known`
    and the task's own options.

    A table that is none is left as it is, for whoever checks the types.
    """
    made = dict(document)
    for key, value in _of(document).items():
        *path, name = key.split(".")
        if key in known or key.startswith("task.options."):
            _set(made, path, name, value)
    return made


def _of(document: Mapping[str, Any]) -> Settings:
    task, algorithm = (_name(document.get(table)) for table in ("task", "algorithm"))
    if task is None:
        return {}
    start = next(start for start in FAMILIES if task.startswith(start))
    return {**FAMILIES[start], **ALONE.get((start, algorithm or ""), {})}


def _name(table: object) -> str | None:
    name = table.get("name") if isinstance(table, Mapping) else None
    return name if isinstance(name, str) else None


def _set(document: dict[str, Any], path: list[str], name: str, value: float | str | bool) -> None:
    """Sets ``path.name`` where it is open; tables on the way are copied, since they are the caller's."""
    table = document
    for step in path:
        below = table.get(step, {})
        if not isinstance(below, Mapping):
            return
        table[step] = dict(below)
        table = table[step]
    table.setdefault(name, value)
