"""The adapters that are measured: each with the plain loop over the package that it adapts.

To add one, write a function that makes the plain loop, and its `Entry`. `raw` has the loops of common interfaces, and
packages are imported inside it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from benchmarks.adapters import own_interfaces
from benchmarks.adapters.plan import Plan
from benchmarks.adapters.raw import Stepper, parallel, tuples, turns
from marless.functions.environments.base import EnvTask

Raw = Callable[[Plan], Stepper]


@dataclass(frozen=True)
class Entry:
    """An adapter, by an env task, and the plain loop over its package."""

    task: EnvTask
    # Makes the plain loop, which plays the first environment's episodes of a plan. Raises `ModuleNotFoundError`.
    raw: Raw
    # The same, and the global state after every step. Used where the adapter gives it.
    raw_with_state: Raw | None = None
    num_envs: int = 1
    # The object that the plain loop steps.
    of: str = "parallel_env"
    # The least ratio that is asked for.
    least: float | None = None
    # The shortest plan.
    steps: int = 200
    # What to install.
    packages: tuple[str, ...] = field(default=())


def pettingzoo(
    name: str,
    packages: tuple[str, ...],
    horizon: int | None = None,
    least: float | None = None,
    **options: Any,
) -> Entry:
    """The entry of a factory ``package.module:factory`` of PettingZoo's interface, called with `options`.

    `horizon`: the longest episode, where the environment does not say it. `least`: see `Entry`.
    """
    module, _, factory = name.partition(":")

    def build() -> Any:
        return getattr(import_module(module), factory)(**options)

    ours = {} if horizon is None else {"horizon": horizon}
    task = EnvTask(name=f"pettingzoo:{name}", options=options | ours)
    if factory == "env":
        return Entry(task, turns(build), of="AECEnv", least=least, packages=packages)
    return Entry(task, parallel(build), parallel(build, state=True), least=least, packages=packages)


def registered(name: str, gymnasium_name: str, package: str, **entry: Any) -> Entry:
    """The entry of an env task that a package registers with Gymnasium."""

    def build() -> Any:
        import_module(package)
        from gymnasium.envs.registration import load_env_creator, registry

        found = registry[gymnasium_name]
        creator: Any = found.entry_point
        return (load_env_creator(creator) if isinstance(creator, str) else creator)(**found.kwargs)

    before = _forget_positions if package == "lbforaging" else _nothing
    return Entry(EnvTask(name=name), tuples(build, before), of="tuple environment", packages=(package,), **entry)


def robot(name: str, partition: str) -> Entry:
    """The entry of a robot of Multi-Agent MuJoCo."""

    def build() -> Any:
        module = import_module("gymnasium_robotics.envs.multiagent_mujoco.mamujoco_v1")
        return module.parallel_env(name, partition, disable_env_checker=True, max_episode_steps=200)

    task = EnvTask(name=f"mamujoco/{name}-{partition}", options={"horizon": 200})
    return Entry(task, parallel(build), parallel(build, state=True), packages=("gymnasium-robotics", "'mujoco<3.6'"))


def grid(game: str, module: str, **options: Any) -> Entry:
    """Return the entry of a game of MAgent2. Its `parallel_env` takes `options`."""

    def build() -> Any:
        return import_module(f"magent2.environments.{module}").parallel_env(**options, max_cycles=200)

    task = EnvTask(name=f"magent2/{game}", options={**options, "horizon": 200})
    return Entry(task, parallel(build), parallel(build, state=True), packages=("magent2",))


def cooks(observation: str) -> Entry:
    """The entry of Overcooked's cramped room."""
    task = EnvTask(name="package:overcooked/cramped_room", options={"observation": observation})
    loop = own_interfaces.kitchen(image=observation == "image")
    return Entry(task, loop, of=f"transition and {observation}", packages=("--no-deps", "overcooked-ai", "gym"))


def _nothing(environment: Any) -> None:
    pass


def _forget_positions(environment: Any) -> None:
    """So an episode depends on its seed alone, like in `marless_tasks.lbf`."""
    for player in environment.players:
        player.position = None


def _spread(plan: Plan) -> Stepper:
    from mpe2 import simple_spread_v3

    return parallel(simple_spread_v3.parallel_env)(plan)


def _smax(plan: Plan) -> Stepper:
    """All environments in one compiled function, as JaxMARL's baselines step them. Every step is waited for."""
    jax, jaxmarl = import_module("jax"), import_module("jaxmarl")
    scenario = import_module("jaxmarl.environments.smax").map_name_to_scenario("3m")
    environment = jaxmarl.make("HeuristicEnemySMAX", scenario=scenario)
    num_envs = len(plan.actions[0][0])
    keys = jax.random.split(jax.random.PRNGKey(0), num_envs)
    reset, step = jax.jit(jax.vmap(environment.reset)), jax.jit(jax.vmap(environment.step))
    actions = [dict(zip(plan.spec.agents, chosen[0].T.astype("int32"), strict=True)) for chosen in plan.actions]

    def play() -> None:
        _, state = reset(keys)
        for chosen in actions:
            _, state, *_ = jax.block_until_ready(step(keys, state, chosen))

    return Stepper(num_envs * len(actions), play)


_LADDER = "benchmarks.adapters.masked_games:Ladder"
_CLASSIC, _SISL = ("pettingzoo[classic]",), ("pettingzoo[sisl]",)

ENTRIES: dict[str, Entry] = {
    "mpe2 simple_spread": pettingzoo("mpe2.simple_spread_v3:parallel_env", ("mpe2",), least=0.85),
    "mpe2 simple_tag": pettingzoo("mpe2.simple_tag_v3:parallel_env", ("mpe2",)),
    "masked ladder": pettingzoo(_LADDER, ("gymnasium",)),
    "connect four": pettingzoo("pettingzoo.classic.connect_four_v3:env", _CLASSIC, horizon=42),
    "tic-tac-toe": pettingzoo("pettingzoo.classic.tictactoe_v3:env", _CLASSIC, horizon=9),
    "lbf": registered("package:lbf/8x8-2p-3f", "Foraging-8x8-2p-3f-v3", "lbforaging"),
    "rware": registered("package:rware/tiny-2ag", "rware-tiny-2ag-v2", "rware"),
    "pursuit": pettingzoo("pettingzoo.sisl.pursuit_v5:parallel_env", _SISL, max_cycles=50),
    "multiwalker": pettingzoo("pettingzoo.sisl.multiwalker_v9:parallel_env", _SISL, max_cycles=50),
    "cooperative pong": pettingzoo(
        "pettingzoo.butterfly.cooperative_pong_v6:parallel_env", ("pettingzoo[butterfly]",), max_cycles=50
    ),
    "knights archers zombies": pettingzoo(
        "pettingzoo.butterfly.knights_archers_zombies_v11:parallel_env",
        ("pettingzoo[butterfly]",),
        max_cycles=100,
    ),
    "batched engine": Entry(EnvTask(name="mpe/simple_spread"), _spread, num_envs=64, of="mpe2", packages=("mpe2",)),
    "overcooked": cooks("features"),
    "overcooked image": cooks("image"),
    "half cheetah": robot("HalfCheetah", "2x3"),
    "ant": robot("Ant", "2x4"),
    "adversarial pursuit": grid("adversarial_pursuit", "adversarial_pursuit_v4", map_size=16),
    "battle": grid("battle", "battle_v4"),
    "vmas": Entry(
        EnvTask(name="vmas/balance"), own_interfaces.vmas_balance, num_envs=64, of="vmas.make_env", packages=("vmas",)
    ),
    "hanabi": Entry(
        EnvTask(name="hanabi/full"), own_interfaces.hanabi, of="OpenSpiel's state", packages=("open_spiel",)
    ),
    "melting pot": Entry(
        EnvTask(name="meltingpot/coins", options={"horizon": 1000}),
        own_interfaces.coins,
        of="substrate, built at resets",
        packages=("dm-meltingpot",),
    ),
    "smax": Entry(EnvTask(name="smax/3m"), _smax, num_envs=64, of="JaxMARL, jit of vmap", packages=("jaxmarl",)),
}
