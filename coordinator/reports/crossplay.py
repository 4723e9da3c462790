"""One side of a team against others: its policies, greedy, while the other agents act at random or as another team.

Where agents compete, a sum over agents hides who got better: what one side wins the other loses. Each side is measured
alone here, against opponents that stay the same from run to run. A side is a class of agents (`Spec.classes`), such as
``adversary`` and ``agent`` of mpe/simple_adversary.

    from coordinator.reports import load_policy
    from coordinator.reports.crossplay import scores
    scores(load_policy("runs/first"), load_policy("runs/reference"), episodes=3200, seed=1)
"""

import numpy as np
from numpy.typing import NDArray

from coordinator.reports.policy import TeamPolicy
from functions.algorithms.losses import ILLEGAL
from functions.environments import registry
from functions.environments.base import ActionArray, Observation, Task, VectorEnvironment
from functions.episodes import Episodes
from functions.policies import as_environment_actions, draw
from functions.randomness import generator

# Copies that are stepped together; another number plays other episodes.
_COPIES = 160


def scores(own: TeamPolicy, reference: TeamPolicy | None, episodes: int, seed: int) -> dict[str, float]:
    """Mean return per agent of every side of `own`, as ``<side> against random`` and ``<side> against reference``.

    Equal `seed`s give equal start states and random actions. Raises `ValueError` as `play` and `sides` do.
    """
    opponents = {"random": None} if reference is None else {"random": None, "reference": reference}
    return {
        f"{side} against {name}": float(play(own.task, own, side, opponent, episodes, seed).mean())
        for side in sides(own.task)
        for name, opponent in opponents.items()
    }


def sides(task: Task) -> tuple[str, ...]:
    """The sides of a task; raises `ValueError` when there is one only."""
    names = tuple(kind.name for kind in registry.spec(task).classes)
    if len(names) < 2:
        raise ValueError(f"{task.name} has agents of one kind only, so there is nobody to play against")
    return names


def play(
    task: Task, own: TeamPolicy | None, side: str, opponent: TeamPolicy | None, episodes: int, seed: int
) -> NDArray[np.float64]:
    """Undiscounted return of every episode, mean over the agents of `side`, which act greedily as `own` says.

    All other agents act as `opponent` says, greedily; who has no team draws uniformly from the legal actions.
    Raises `ValueError` for a side that there is not, and when a team was trained on another task.
    """
    for team in (own, opponent):
        if team is not None and team.task != task:
            raise ValueError(f"a team of {team.task.name} cannot play {task.name} with other agents or options")
    found = []
    for start in range(0, episodes, _COPIES):
        environment = registry.make(task, _COPIES)
        try:
            match = _Match(environment, own, side, opponent, generator(seed, "crossplay", start, "actions"))
            rng = generator(seed, "crossplay", start, "environment")
            found.append(match.play(rng, min(_COPIES, episodes - start)))
        finally:
            environment.close()
    return np.concatenate(found)


class _Match:
    """Copies of a task in which one side plays against the rest; `rng` draws random opponents' actions."""

    def __init__(
        self,
        environment: VectorEnvironment,
        own: TeamPolicy | None,
        side: str,
        opponent: TeamPolicy | None,
        rng: np.random.Generator,
    ) -> None:
        self._environment, self._rng = environment, rng
        kinds = environment.spec.classes
        self._own = [kind for kind in kinds if kind.name == side]
        if not self._own:
            raise ValueError(f"there is no side {side}; there are {', '.join(kind.name for kind in kinds)}")
        self._players = [own if kind.name == side else opponent for kind in kinds]

    def play(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        """One whole episode in each of the first `count` copies, from the start states of `rng`."""
        spec, copies = self._environment.spec, self._environment.copies
        episodes = Episodes(copies, len(spec.agents))
        seen = self._environment.reset(rng)
        running = np.arange(copies) < count
        for _ in range(spec.horizon):
            step = self._environment.step(as_environment_actions(self._actions(seen)))
            episodes.add(step, running)
            running &= ~step.ended
            if not running.any():
                break
            seen = step.observation
        agents = [agent for kind in self._own for agent in kind.agents]
        returns: NDArray[np.float64] = episodes.agent_returns()[:, agents].mean(axis=1)
        return returns

    def _actions(self, seen: Observation) -> tuple[ActionArray, ...]:
        """Per class ``[n, E]``."""
        return tuple(
            self._greedy(player, seen, index) if player else self._random(seen, index)
            for index, player in enumerate(self._players)
        )

    def _greedy(self, player: TeamPolicy, seen: Observation, index: int) -> ActionArray:
        spec = self._environment.spec
        agents = [spec.agents[agent] for agent in spec.classes[index].agents]
        logits = np.stack([player.logits(agent, seen.values[index][:, i]) for i, agent in enumerate(agents)])
        if seen.masks is not None:
            logits = np.where(seen.masks[index].swapaxes(0, 1), logits, np.float32(ILLEGAL))
        return np.asarray(logits.argmax(axis=-1), np.int64)

    def _random(self, seen: Observation, index: int) -> ActionArray:
        kind, copies = self._environment.spec.classes[index], self._environment.copies
        logits = np.zeros((len(kind.agents), copies, kind.actions), np.float32)
        if seen.masks is not None:
            logits[~seen.masks[index].swapaxes(0, 1)] = ILLEGAL
        actions, _ = draw(logits, self._rng.random(logits.shape[:2], dtype=np.float32))
        return actions
