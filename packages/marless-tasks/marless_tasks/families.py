"""The families of tasks, with the default settings of runs. MARLess lists the reasons in docs/data/algorithms.toml."""

from marless.functions.environments.task_names import Settings, TaskFamily

# Environments are stepped one after another. Thus 3,200 episodes of level-based foraging took longer than the
# evaluator's 60 s, and a run must not fail at its end.
_STEPPED: Settings = {"evaluation.episodes_per_invocation": 320, "functions.evaluator.timeout_s": 300.0}
# Published settings share networks among equal agents, with this discount.
_SHARED: Settings = {"sharing.rule": "all", "algorithm.gamma": 0.99}
# Episodes have up to 900 steps of physics or of rendering. 64 of them took 118 to 589 s, so 8 take 74 s at most.
_SLOW: Settings = {
    **_STEPPED,
    "actors.num_envs": 8,
    "evaluation.episodes_per_invocation": 8,
    "functions.actor.timeout_s": 300.0,
}

# All players are paid the same, and have the same moves.
HANABI = TaskFamily("marless_tasks.hanabi", "hanabi/small", "the card game Hanabi", defaults={**_STEPPED, **_SHARED})
# Equal patches share a network, as published. A step takes 5 to 15 ms, so 8 episodes of 400 steps take half a minute.
CHANNELS = TaskFamily(
    "marless_tasks.channel.environment",
    "channel/wall",
    "patches of the walls of a turbulent channel flow",
    vectors=True,
    defaults={**_SLOW, **_SHARED, "actors.num_envs": 1, "evaluation.episodes": 8, "evaluation.final_episodes": 8},
)
# To compare with `lbf/`, which plays the same game in C.
FORAGING = TaskFamily(
    "marless_tasks.lbf",
    "package:lbf/8x8-2p-3f",
    "level-based foraging of the package lbforaging",
    defaults={**_STEPPED, **_SHARED},
)
# A side has dozens of equal agents, which share a network in all published settings.
CROWDS = TaskFamily(
    "marless_tasks.magent2",
    "magent2/battle",
    "many agents on a grid",
    defaults={**_SLOW, "sharing.rule": "all", "algorithm.gamma": 0.9},
)
# The published discount. An episode has 1,000 steps. With two episodes a round is as long as in other tasks, and
# policies change as often. Agents move different joints and have separate networks, which is the default.
ROBOTS = TaskFamily(
    "marless_tasks.mamujoco",
    "mamujoco/HalfCheetah-2x3",
    "robots with several brains",
    defaults={**_SLOW, "actors.num_envs": 2, "algorithm.gamma": 0.99},
)
# A game takes a second to begin, and pictures are large.
SUBSTRATES = TaskFamily(
    "marless_tasks.meltingpot", "meltingpot/coins", "Melting Pot's substrates", defaults={**_SLOW, **_SHARED}
)
# To compare with `overcooked/`, which plays the same game in C.
KITCHENS = TaskFamily(
    "marless_tasks.overcooked.kitchen",
    "package:overcooked/cramped_room",
    "cooks in a kitchen of the package overcooked-ai",
    defaults={**_SLOW, **_SHARED},
)
# To compare with `rware/`, which plays the same game in C. 64 episodes of 500 steps took 35 of the actor's 60 s.
WAREHOUSES = TaskFamily(
    "marless_tasks.rware",
    "package:rware/tiny-2ag",
    "robots in a warehouse, of the package rware",
    defaults={**_STEPPED, **_SHARED, "functions.actor.timeout_s": 300.0},
)
# The settings of `smax/`.
BATTLES = TaskFamily(
    "marless_tasks.smax.adapter",
    "jaxmarl:smax/8m",
    "JaxMARL's own SMAX",
    vectors=True,
    defaults={**_STEPPED, **_SHARED, "algorithm.reward": "team", "algorithm.n_step": 20},
)
# Bodies of one kind share networks, and their team is paid over episodes of 100 steps.
PLANES = TaskFamily(
    "marless_tasks.vmas.adapter",
    "vmas/balance",
    "VMAS, robots in the plane",
    vectors=True,
    defaults={
        **_SHARED,
        "evaluation.episodes_per_invocation": 64,
        "functions.actor.timeout_s": 300.0,
        "functions.evaluator.timeout_s": 300.0,
    },
)
