"""Plain loops over environments with the interfaces of PettingZoo and of tuples, which an entry takes as its `raw`.

As an adapter does, they reset once more after the last episode.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.adapters.plan import Plan


class Stepper(NamedTuple):
    """Plays a plan. `steps` counts the steps of all its environments."""

    steps: int
    play: Callable[[], object]


def parallel(build: Callable[[], Any], state: bool = False) -> Callable[[Plan], Stepper]:
    """A `ParallelEnv`, by a dictionary of the living agents' actions. `state` asks for its state after every step."""

    def raw(plan: Plan) -> Stepper:
        """The loop of a plan."""
        environment = build()
        seeds, episodes = plan.seeds(), plan.dictionaries(environment.possible_agents)

        def play() -> None:
            """Plays the plan once."""
            environment.reset(seed=seeds[0])
            for seed, episode in zip(seeds[1:], episodes, strict=True):
                for actions in episode:
                    environment.step(actions)
                    if state and environment.agents:
                        environment.state()
                environment.reset(seed=seed)

        return Stepper(len(plan.actions), play)

    return raw


def turns(build: Callable[[], Any]) -> Callable[[Plan], Stepper]:
    """An `AECEnv`, by its documented loop: `agent_iter`, `last`, `step`."""

    def raw(plan: Plan) -> Stepper:
        """The loop of a plan."""
        game = build()
        seeds, episodes = plan.seeds(), plan.dictionaries(game.possible_agents)

        def play() -> None:
            """Plays the plan once."""
            game.reset(seed=seeds[0])
            for seed, episode in zip(seeds[1:], episodes, strict=True):
                turn = iter(episode)
                for agent in game.agent_iter():
                    _, _, terminated, truncated, _ = game.last()
                    game.step(None if terminated or truncated else next(turn)[agent])
                game.reset(seed=seed)

        return Stepper(len(plan.actions), play)

    return raw


def tuples(build: Callable[[], Any], before_reset: Callable[[Any], None] = lambda _: None) -> Callable[[Plan], Stepper]:
    """A Gymnasium environment of several agents, one list of actions in every step."""

    def raw(plan: Plan) -> Stepper:
        """The loop of a plan."""
        environment = build()
        seeds, episodes = plan.seeds(), [*plan.episodes()]

        def play() -> None:
            """Plays the plan once."""
            before_reset(environment)
            environment.reset(seed=seeds[0])
            for seed, episode in zip(seeds[1:], episodes, strict=True):
                for actions in episode:
                    environment.step(actions)
                before_reset(environment)
                environment.reset(seed=seed)

        return Stepper(len(plan.actions), play)

    return raw
