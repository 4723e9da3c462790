"""Every algorithm trains two rounds of every family of tasks, or says in one line why it cannot."""

import dataclasses
import math
from importlib.util import find_spec

import numpy as np
import pytest
import smac_stand_in
from algorithm_families import family as family_of
from algorithm_families import named
from driver import train

from marless.functions.algorithms.registry import ALGORITHMS
from marless.infra.local.file_storage import FileStorage
from marless.reports.weights import gather

ROUNDS, NUM_ENVS, EPISODES = 2, 2, 2
TINY = (
    f"stop.rounds={ROUNDS}", f"actors.num_envs={NUM_ENVS}", "evaluation.every=1", f"evaluation.episodes={EPISODES}",
    f"evaluation.final_episodes={EPISODES}", "algorithm.hidden=[8]",
)  # fmt: skip
# A minibatch as large as two environments' rollouts, so that every network has rows to learn from.
REPLAYED = ("algorithm.updates_per_round=2", "algorithm.batch_size=24")
ON_POLICY = ("algorithm.epochs=1", "algorithm.num_minibatches=2")
EACH = {
    spec.name: (ON_POLICY if family_of(spec) == "on-policy" else REPLAYED)
    for spec in ALGORITHMS.ours()
    if not spec.imitates and not spec.function
}

VALUES, GRADIENTS = named("value"), named("actor-critic")
FIVE = ("task.options.max_cycles=5",)
ONE_CHOICE = "use ippo or mappo, or with PettingZoo and RWARE task.options.joint_actions=true"
STUDIO = "pettingzoo:many_spaces:Studio"


@dataclasses.dataclass(frozen=True)
class Family:
    """A family of tasks by a small member: `horizon` steps an episode, `groups` of networks without sharing.

    `refused` maps algorithms to the message that refuses them. `package` must be installed, which `make test` does
    unless it is `large`.
    """

    settings: tuple[str, ...]
    horizon: int
    groups: int
    refused: dict[str, str] = dataclasses.field(default_factory=dict)
    package: str = ""
    large: bool = False


def unvalued(agent, what):
    advice = "use ippo, mappo, iddpg, maddpg, isac or masac" if what == "numbers" else ONE_CHOICE
    return dict.fromkeys(VALUES, f"{agent} acts in {what}; the algorithm values single choices only: {advice}")


def several(agent):
    """Value methods and off-policy actor-critic methods do not support agents with several choices a step."""
    message = f"{agent} makes several choices at once; the algorithm takes one, or numbers: {ONE_CHOICE}"
    return unvalued(agent, "several choices at once") | dict.fromkeys(GRADIENTS, message)


FAMILIES = {
    "toy, with masks, deaths and unequal agents": Family(
        (
            "task.name=toy/signal",
            "task.agents=3",
            *(f"task.options.{option}=true" for option in ("masked", "elimination", "mixed")),
        ),
        horizon=5,
        groups=3,
    ),
    "corridor": Family(("task.name=toy/corridor",), horizon=2, groups=2),
    "matrix game": Family(("task.name=matrix/two_step",), horizon=2, groups=2),
    "mpe in choices": Family(("task.name=mpe/simple_spread", *FIVE), horizon=5, groups=3),
    "mpe in numbers": Family(
        ("task.name=mpe/simple_spread", "task.options.continuous_actions=true", *FIVE),
        horizon=5,
        groups=3,
        refused=unvalued("agent_0", "numbers"),
    ),
    "mpe with two sides": Family(("task.name=mpe/simple_tag", *FIVE), horizon=5, groups=4),
    "mpe, one speaks and one walks": Family(("task.name=mpe/simple_speaker_listener", *FIVE), horizon=5, groups=2),
    "mpe, a secret and who may not hear it": Family(("task.name=mpe/simple_crypto", *FIVE), horizon=5, groups=3),
    "pettingzoo, unequal agents": Family(("task.name=pettingzoo:mining:parallel_env",), horizon=6, groups=3),
    "pettingzoo, several choices": Family(
        (f"task.name={STUDIO}", "task.options.sees=nested", "task.options.does=several choices"),
        horizon=4,
        groups=2,
        refused=several("artist_0"),
    ),
    "pettingzoo, numbers": Family(
        (f"task.name={STUDIO}", "task.options.does=wide numbers"),
        horizon=4,
        groups=2,
        refused=unvalued("artist_0", "numbers"),
    ),
    "pettingzoo, one chooses and one gives numbers": Family(
        (f"task.name={STUDIO}", "task.options.does=one choice|numbers"),
        horizon=4,
        groups=2,
        refused=unvalued("artist_1", "numbers"),
    ),
    "turns, with agents that leave": Family(
        ("task.name=pettingzoo:challenges:Challenge", "task.options.limit=12", "task.options.horizon=12"),
        horizon=12,
        groups=3,
    ),
    "turns of two sides": Family(
        (
            "task.name=pettingzoo:pettingzoo.classic.tictactoe_v3:env",
            "task.options.sides=player_1,player_2",
            "task.options.horizon=9",
        ),
        horizon=9,
        groups=2,
        package="pygame",
    ),
    "classic": Family(
        ("task.name=pettingzoo:pettingzoo.classic.rps_v2:parallel_env", "task.options.sides=player_0,player_1", *FIVE),
        horizon=5,
        groups=2,
    ),
    "butterfly": Family(
        ("task.name=pettingzoo:pettingzoo.butterfly.knights_archers_zombies_v11:parallel_env", *FIVE),
        horizon=5,
        groups=4,
    ),
    "sisl": Family(
        (
            "task.name=pettingzoo:pettingzoo.sisl.pursuit_v5:parallel_env",
            *(f"task.options.{option}" for option in ("x_size=6", "y_size=6", "n_pursuers=2", "n_evaders=2")),
            *FIVE,
        ),
        horizon=5,
        groups=2,
        package="pymunk",
        large=True,
    ),
    "level-based foraging": Family(("task.name=lbf/5x5-2p-1f", "task.options.horizon=5"), horizon=5, groups=1),
    "rware": Family(("task.name=rware/tiny-2ag", "task.options.horizon=5"), horizon=5, groups=1),
    "rware, robots that talk": Family(
        ("task.name=rware/tiny-2ag", "task.options.horizon=5", "task.options.msg_bits=1"),
        horizon=5,
        groups=1,
        refused=several("agent_0"),
    ),
    "rware, robots that talk, as one choice": Family(
        (
            "task.name=rware/tiny-2ag",
            "task.options.horizon=5",
            "task.options.msg_bits=1",
            "task.options.joint_actions=true",
        ),
        horizon=5,
        groups=1,
    ),
    "overcooked": Family(("task.name=overcooked/cramped_room", "task.options.horizon=5"), horizon=5, groups=1),
    "mamujoco": Family(
        ("task.name=mamujoco/HalfCheetah-2x3", "task.options.horizon=5"),
        horizon=5,
        groups=2,
        refused=unvalued("agent_0", "numbers"),
        package="gymnasium_robotics",
        large=True,
    ),
    "magent2": Family(
        ("task.name=magent2/adversarial_pursuit", "task.options.map_size=9", "task.options.horizon=5"),
        horizon=5,
        groups=3,
        package="magent2",
        large=True,
    ),
    "vmas": Family(
        ("task.name=vmas/balance", "task.options.horizon=5"), horizon=5, groups=1, package="vmas", large=True
    ),
    "hanabi": Family(("task.name=hanabi/very_small",), horizon=28, groups=1, package="pyspiel", large=True),
    "smac": Family(("task.name=smac/3m",), horizon=12, groups=1),
    "smacv2": Family(("task.name=smacv2/terran_3_vs_3",), horizon=12, groups=1),
    # One step more than the limit is played.
    "smax": Family(("task.name=smax/3m", "task.options.max_steps=5"), horizon=6, groups=1),
}
PAIRS = [(family, algorithm) for family in FAMILIES for algorithm in EACH]
SUPPORTED, REFUSED = (
    [pair for pair in PAIRS if (pair[1] in FAMILIES[pair[0]].refused) is refused] for refused in (False, True)
)


def marked(pairs):
    """The pairs as parameters. `make conformance` installs the large packages."""
    large = [pytest.mark.packages]
    return [pytest.param(*pair, marks=large if FAMILIES[pair[0]].large else []) for pair in pairs]


@pytest.fixture(autouse=True)
def starcraft(shell):
    """Replaces the StarCraft packages, which are on no package index."""
    world = smac_stand_in.World()
    shell.provide(smac_stand_in.modules(world))
    yield
    assert world.running == set()


def trained(folder, family, algorithm):
    """The run, and its policies' tensors by name, initial and final."""
    if family.package and find_spec(family.package) is None:
        pytest.skip(f"{family.package} is not installed")
    storage, drawn = FileStorage(folder / "objects"), {}

    def policies(state):
        tensors = gather(state, storage)
        # The weights are stored with the kind of network.
        return {name: tensors[name] for name in tensors if name.startswith("policy/") and not name.endswith("/relu")}

    def look(state):
        if state.round == 0 and state.objects and not drawn:
            drawn.update(policies(state))
        return False

    # Off-policy algorithms share networks by default. Without sharing there is a network of every kind.
    apart = ("sharing.rule=none",) if family.groups > 1 else ()
    settings = (*TINY, *apart, *family.settings, f"algorithm.name={algorithm}", *EACH[algorithm])
    run = train(folder, settings, leave=look)
    return run, drawn, policies(run.state) if drawn else {}


def numbers(run):
    for line in run.lines:
        recorded = {"return": line.return_mean, "spread": line.return_sd} | line.metrics | line.env_metrics
        yield from ((f"round {line.round}: {name}", number) for name, number in recorded.items())
        yield from ((f"round {line.round}: agent {agent}", number) for agent, number in enumerate(line.agent_returns))
    evaluated = run.lines[-1].evaluation.returns
    for when, returns in (("evaluation", evaluated), ("final", run.state.final), ("absolute", run.state.absolute)):
        yield from ((f"{when}: episode {episode}", number) for episode, number in enumerate(returns))


def has_learned(run, drawn, policies, family):
    """Checks for two complete rounds, changed weights in every network, and finite metrics."""
    state = run.state
    assert (state.status, state.reason, state.round) == ("finished", "rounds", ROUNDS)
    steps = NUM_ENVS * family.horizon
    assert [line.env_steps for line in run.lines] == [steps, 2 * steps]
    assert len(state.final) == EPISODES and len(state.absolute) == 10 * EPISODES
    assert drawn.keys() == policies.keys()
    assert {name.split("/")[1] for name in policies} == {f"g{group:02d}" for group in range(family.groups)}
    assert [name for name, array in policies.items() if not np.isfinite(array).all()] == []
    assert [name for name, array in policies.items() if np.array_equal(array, drawn[name])] == []
    recorded = dict(numbers(run))
    assert {name for name in recorded if "loss" in name or "grad_norm" in name}
    assert {name: number for name, number in recorded.items() if number is None or not math.isfinite(number)} == {}


def test_nobody_is_left_out():
    assert {"iql", "vdn", "qmix"} <= {*VALUES} and {"iddpg", "maddpg", "isac", "masac"} <= {*GRADIENTS}
    # By hand: value methods refuse six families of tasks, off-policy actor-critic methods two.
    assert len(REFUSED) == len(VALUES) * 6 + len(GRADIENTS) * 2
    assert len(SUPPORTED) + len(REFUSED) == len(EACH) * len(FAMILIES)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("family", "algorithm"), marked(SUPPORTED))
def test_an_algorithm_trains_what_it_is_made_for(tmp_path, family, algorithm):
    has_learned(*trained(tmp_path, FAMILIES[family], algorithm), FAMILIES[family])


@pytest.mark.parametrize(("family", "algorithm"), marked(REFUSED))
def test_algorithm_refuses_unsupported_tasks_in_one_line(tmp_path, family, algorithm):
    run, drawn, _ = trained(tmp_path, FAMILIES[family], algorithm)
    assert (run.state.status, run.state.round, run.lines, drawn) == ("failed", 0, [], {})
    assert run.state.reason == f"initialise: {FAMILIES[family].refused[algorithm]}"
