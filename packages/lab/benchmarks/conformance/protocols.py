"""The protocols: `QUICK` for every change, `FULL` against the published benchmark.

Published: Papoudakis et al., "Benchmarking Multi-Agent Deep Reinforcement Learning Algorithms in Cooperative Tasks",
NeurIPS 2021, Table 3, the best over training with shared parameters. Returns there are sums over all agents, divided by
their number (an author in github.com/uoe-agents/epymarl/issues/29). Every agent of a team gets the sum over the team,
which is our sum over agents of their rewards. Its spread counts rewards differently: it does not take the mean of both
parts, and every agent collides with itself at every step. So a published return R is (R + 25 N) / 2 in our units, for N
agents in 25 steps. Speaker-listener is the same. Budgets: `t_max` in EPyMARL's settings of algorithms and of these
tasks. We know no comparable win rates of SMAX's scenarios. StarCraft's own (Yu et al., 2022) are next to ours in
docs/results/protocol.md.
"""

from dataclasses import replace

from benchmarks.conformance.cases import REFERENCE, REFERENCE_SEED, Case, Measure, Protocol
from marless.functions.algorithms import registry
from marless.studies.cells import Settings, Value

BARS = {
    "mappo": -33.0,
    "ippo": -34.0,
    "happo": -31.5,
    "vdn": -33.0,
    "qmix": -33.0,
    "qplex": -27.0,
    "iql": -36.0,
    "maddpg": -38.0,
    "masac": -29.3,
}
QUICK_BAR = -45.0
# Slower learners train longer.
QUICK_STEPS = {
    "mappo": 400_000,
    "ippo": 400_000,
    "happo": 400_000,
    "iql": 320_000,
    "vdn": 240_000,
    "qmix": 480_000,
    "qplex": 320_000,
    "maddpg": 240_000,
    "isac": 240_000,
    "masac": 240_000,
    "iddpg": 240_000,
}
# For an algorithm that is not named above.
QUICK_STEPS_OTHERS = 480_000
# Imitation needs a dataset, and some agents speak.
PLAYING = tuple(spec.name for spec in registry.ALGORITHMS.ours() if not spec.imitates and not spec.function)
ALGORITHMS = tuple(dict.fromkeys((*QUICK_STEPS, *PLAYING)))
ON_POLICY = tuple(name for name in ALGORITHMS if not registry.ALGORITHMS[name].config().replayed_steps)
PUBLISHED = {
    "simple_spread_3": {"qmix": -25.8, "vdn": -28.0, "iql": -28.8, "mappo": -29.3, "ippo": -29.4, "maddpg": -33.4},
    "simple_speaker_listener": {
        "qmix": -11.56,
        "vdn": -15.95,
        "iql": -18.36,
        "mappo": -10.68,
        "ippo": -13.10,
        "maddpg": -13.56,
    },
}

# The share of battles won, in median, after 10M steps: Yu et al., "The Surprising Effectiveness of PPO in Cooperative
# Multi-Agent Games", NeurIPS 2022.
PUBLISHED_WINS = {"smac_8m": {"mappo": 1.0}, "smac_3s5z": {"mappo": 1.0, "qmix": 0.969}}

_FULL_SEEDS = (1, 2, 3, 4, 5)
_SEEDS = (1, 2, 3)
_SPREAD: Settings = {"task.name": "mpe/simple_spread", "task.agents": 3}
# One wider network for all agents, with minibatches of one agent's size: see examples/long_run.toml.
_LONG: Settings = {
    "sharing.rule": "all",
    "algorithm.hidden": (128, 128),
    "algorithm.num_minibatches": 24,
    "algorithm.lr_schedule": "linear",
}
# Trained by numpy before there were native kernels.
_TRAINED_BY_NUMPY = ("mappo", "ippo", "iql", "vdn", "qmix", "maddpg", "iddpg")
# Trained before the defaults of these tasks fell to 0. A step size that is set keeps its schedule and all the others.
CONSTANT_STEP = ("mappo", "ippo")
_LONG_BARS = {"mappo": -26.5, "ippo": -27.5}


def published(task: str, algorithm: str) -> tuple[float, int] | None:
    """Return the published return in our units, and the latest environment steps of its measurement."""
    value = PUBLISHED.get(task, {}).get(algorithm)
    return None if value is None else (value, 20_000_000 if algorithm in ON_POLICY else 2_000_000)


def _settings(task: Settings, algorithm: str, env_steps: int, more: Settings | None = None) -> dict[str, Value]:
    """Return settings of a run of `env_steps`, evaluated 50 times. Off-policy agents share networks, like in the
    benchmark."""
    rounds = max(1, env_steps // (50 * 1600))
    found: dict[str, Value] = {
        **task,
        "algorithm.name": algorithm,
        "placement.rule": "packed",
        "stop.env_steps": env_steps,
        "evaluation.every": rounds,
    }
    if algorithm not in ON_POLICY:
        found["sharing.rule"] = "all"
    elif algorithm in CONSTANT_STEP:
        found["algorithm.lr_schedule"] = "constant"
    return {**found, **(more or {})}


def _budget(algorithm: str, gradient: int, value: int) -> int:
    return gradient if algorithm in ON_POLICY else value


def _quick() -> list[Case]:
    """The same bar for every algorithm and every seed."""
    return [
        Case(
            task="simple_spread_3",
            algorithm=algorithm,
            treatment="quick",
            seeds=_SEEDS,
            settings=_settings(_SPREAD, algorithm, QUICK_STEPS.get(algorithm, QUICK_STEPS_OTHERS)),
            bar=QUICK_BAR,
        )
        for algorithm in ALGORITHMS
    ]


def _spread(treatment: str, gradient: int, value: int) -> list[Case]:
    """The benchmark's task. It has 20M steps on-policy, where our curves are flat from 4M on, and 2M off-policy."""
    return [
        Case(
            task="simple_spread_3",
            algorithm=algorithm,
            treatment=treatment,
            seeds=_FULL_SEEDS,
            settings=_settings(
                _SPREAD,
                algorithm,
                _budget(algorithm, gradient, value),
                {"algorithm.time_limit": treatment, "algorithm.gamma": 0.9},
            ),
            bar=BARS.get(algorithm),
        )
        for algorithm in ALGORITHMS
    ]


def _native(cases: list[Case]) -> list[Case]:
    """The cases that numpy trained, by native kernels."""
    return [
        replace(
            case,
            treatment=f"{case.treatment}-native",
            seeds=_FULL_SEEDS,
            settings={**case.settings, "algorithm.engine": "native"},
        )
        for case in cases
        if case.algorithm in _TRAINED_BY_NUMPY
    ]


def _long() -> list[Case]:
    """PPO with the settings for long runs, as many steps as the algorithms with a replay buffer have."""
    return [
        Case(
            task="simple_spread_3",
            algorithm=algorithm,
            treatment="long",
            seeds=_FULL_SEEDS,
            settings=_settings({"task.name": "mpe/simple_spread"}, algorithm, 2_000_000, _LONG),
            bar=bar,
        )
        for algorithm, bar in _LONG_BARS.items()
    ]


def _speaking() -> list[Case]:
    """PPO with today's defaults of speaker-listener."""
    settings: Settings = {"task.name": "mpe/simple_speaker_listener", "placement.rule": "packed"}
    more: Settings = {"stop.env_steps": 2_000_000, "evaluation.every": 25}
    return [
        Case(
            task="simple_speaker_listener",
            algorithm=algorithm,
            treatment="annealed",
            seeds=_FULL_SEEDS,
            settings={**settings, "algorithm.name": algorithm, **more},
        )
        for algorithm in ("mappo", "ippo")
    ]


def _numbers(env_steps: int) -> list[Case]:
    """Actions are forces, not choices."""
    task: Settings = {**_SPREAD, "task.options.continuous_actions": True}
    return [
        Case(
            task="simple_spread_3_continuous",
            algorithm=algorithm,
            treatment="default",
            seeds=_SEEDS,
            settings=_settings(task, algorithm, env_steps),
        )
        for algorithm in ("maddpg", "masac")
    ]


def _six(treatment: str, algorithms: tuple[str, ...], env_steps: int, bar: float) -> list[Case]:
    task: Settings = {"task.name": "mpe/simple_spread", "task.agents": 6}
    return [
        Case(
            task="simple_spread_6",
            algorithm=algorithm,
            treatment=treatment,
            seeds=_SEEDS,
            settings=_settings(task, algorithm, env_steps),
            bar=bar,
            criterion="best",
        )
        for algorithm in algorithms
    ]


def _others(task: str, algorithms: tuple[str, ...], measure: Measure = "") -> list[Case]:
    """Return curves. In tasks with sides each side is measured after every fifth of the training."""
    cases = []
    for algorithm in algorithms:
        env_steps = _budget(algorithm, 2_000_000, 500_000)
        cases.append(
            Case(
                task=task,
                algorithm=algorithm,
                treatment="default",
                seeds=_SEEDS,
                settings=_settings({"task.name": f"mpe/{task}"}, algorithm, env_steps),
                measure=measure,
                points=tuple(env_steps * part // 5 for part in range(1, 6)) if measure else (),
            )
        )
    return cases


def _reference(task: str) -> Case:
    """Return the case with the final policies that the sides of a task play against."""
    settings = _settings({"task.name": f"mpe/{task}"}, "mappo", 1_000_000)
    return Case(task=task, algorithm="mappo", treatment=REFERENCE, seeds=(REFERENCE_SEED,), settings=settings)


def _battle(scenario: str) -> list[Case]:
    """SMAX against JaxMARL's scripted enemy."""
    cases = []
    for algorithm in ("mappo", "qmix"):
        env_steps = _budget(algorithm, 1_500_000, 750_000)
        more: Settings = {
            "algorithm.gamma": 0.99,
            "sharing.rule": "all",
            # Battles are slow: an evaluator that plays 3,200 of them runs past its time-out.
            "evaluation.episodes": 64,
            "evaluation.final_episodes": 640,
            "functions.evaluator.timeout_s": 300,
            **({"algorithm.reward": "team"} if algorithm in ON_POLICY else {}),
        }
        cases.append(
            Case(
                task=f"smax_{scenario}",
                algorithm=algorithm,
                treatment="default",
                seeds=_SEEDS,
                settings=_settings({"task.name": f"smax/{scenario}"}, algorithm, env_steps, more),
                measure="win",
                points=tuple(env_steps * part // 5 for part in range(1, 6)),
                # The share of the enemy's health that was lost, and 1 for the victory.
                bounds=(0.0, 2.0),
            )
        )
    return cases


def _starcraft(name: str, task: str) -> list[Case]:
    """A battle of StarCraft II itself as Yu et al. train it: recurrent networks, 8 games at once, 10M steps, 32 battles
    an evaluation. MAPPO's critics see the state and the agent's own observation."""
    env_steps = 10_000_000
    cases = []
    for algorithm in ("mappo", "qmix"):
        more: Settings = {
            "algorithm.gamma": 0.99,
            "algorithm.recurrent": True,
            "sharing.rule": "all",
            "actors.num_envs": 8,
            "evaluation.episodes": 32,
            "evaluation.final_episodes": 32,
            "functions.actor.timeout_s": 900,
            "functions.evaluator.timeout_s": 900,
            **(
                {"algorithm.reward": "team", "algorithm.critic_input": "state+observation"}
                if algorithm in ON_POLICY
                else {}
            ),
        }
        cases.append(
            Case(
                task=name,
                algorithm=algorithm,
                treatment="published",
                seeds=_FULL_SEEDS,
                settings=_settings({"task.name": task}, algorithm, env_steps, more),
                measure="win",
                points=(env_steps // 5, env_steps),
                # The packages scale rewards so that a battle won is worth 20.
                bounds=(0.0, 20.0),
                num_envs=8,
            )
        )
    return cases


def _foraging(field: str) -> list[Case]:
    """Foraging with a maximum return of 1. The package steps environments one after another, so steps are slow."""
    task: Settings = {"task.name": f"lbf/{field}"}
    return [
        Case(
            task=f"lbf_{field}",
            algorithm=algorithm,
            treatment="default",
            seeds=_SEEDS,
            settings=_settings(task, algorithm, 500_000),
            bounds=(0.0, 1.0),
        )
        for algorithm in ("mappo", "iql", "vdn", "qmix")
    ]


_SIDED = ("simple_adversary", "simple_tag")
_JOINT = ("simple_speaker_listener", "simple_reference")

QUICK = Protocol("quick", (_quick(),))
FULL = Protocol(
    "full",
    (
        _spread("bootstrap", 4_000_000, 2_000_000),
        _six("1M", ("mappo", "ippo", "vdn"), 1_000_000, -180.0),
        [_reference(task) for task in _SIDED],
        [case for task in _SIDED for case in _others(task, ("mappo", "ippo", "iql", "maddpg"), "sides")],
        [case for task in _JOINT for case in _others(task, ("mappo", "ippo", "vdn", "qmix", "maddpg"))],
        [case for scenario in ("8m", "3s5z") for case in _battle(scenario)],
        _foraging("8x8-2p-2f-coop"),
        _spread("terminal", 4_000_000, 2_000_000),
        _native(_quick()),
        _native(_spread("terminal", 4_000_000, 2_000_000)),
        # The best algorithm with 1M steps trains longer.
        _six("4M", ("vdn",), 4_000_000, -150.0),
        _numbers(500_000),
        _long(),
        _speaking(),
    ),
)
# For users with StarCraft II.
STARCRAFT = Protocol(
    "starcraft",
    (
        _starcraft("smac_8m", "smac/8m"),
        _starcraft("smac_3s5z", "smac/3s5z"),
        _starcraft("smacv2_terran_5_vs_5", "smacv2/terran_5_vs_5"),
    ),
)
PROTOCOLS = {protocol.name: protocol for protocol in (QUICK, FULL, STARCRAFT)}
