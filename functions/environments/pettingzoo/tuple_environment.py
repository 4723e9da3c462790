"""A Gymnasium environment of several agents, with tuples of spaces, observations, actions and rewards, as a PettingZoo
`ParallelEnv` in all but its type."""

import difflib
from collections.abc import Callable
from typing import Any

from functions.environments.pettingzoo.factory import module_of


class TupleEnvironment:
    """`environment` with named agents, all of which are in play until the episode ends.

    Such environments say "done" of every end. `ran_out` tells of one that is done whether only its time had run out.
    """

    def __init__(self, environment: Any, horizon: int, ran_out: Callable[[Any], bool]) -> None:
        self.possible_agents = [f"agent_{i}" for i in range(len(environment.action_space))]
        self.agents: list[str] = []
        self.max_cycles = horizon
        self._environment = environment
        self._ran_out = ran_out
        self._seats = {name: i for i, name in enumerate(self.possible_agents)}

    def observation_space(self, agent: str) -> Any:
        """What `agent` sees."""
        return self._environment.observation_space[self._seats[agent]]

    def action_space(self, agent: str) -> Any:
        """What `agent` can do."""
        return self._environment.action_space[self._seats[agent]]

    def reset(self, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """A new episode."""
        observations, _ = self._environment.reset(seed=seed)
        self.agents = list(self.possible_agents)
        return self._named(observations), {}

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]]:
        """One step of all agents."""
        observations, rewards, done, cut, _ = self._environment.step([actions[name] for name in self.possible_agents])
        truncated = bool(cut) or (bool(done) and self._ran_out(self._environment))
        terminated = bool(done) and not truncated
        if done or truncated:
            self.agents = []
        return (
            self._named(observations),
            self._named(rewards),
            dict.fromkeys(self.possible_agents, terminated),
            dict.fromkeys(self.possible_agents, truncated),
            {},
        )

    def close(self) -> None:
        """Closes the environment."""
        self._environment.close()

    def _named(self, values: Any) -> dict[str, Any]:
        return dict(zip(self.possible_agents, values, strict=True))


def registered(name: str, package: str, pattern: str, form: str) -> tuple[Callable[..., Any], dict[str, Any]]:
    """What `package` registers with Gymnasium for the task `name`, ``family/label``: a class, and its arguments.

    `pattern` makes a label an identifier of the package: ``"rware-{}-v2"``. `form` tells how tasks are named. Raises
    `ValueError`, with the nearest tasks or else with `form`, `MissingExtra` or `EnvironmentFault`. Gymnasium's own
    `make` is not used: it would put wrappers around.
    """
    module_of(name, package)
    from gymnasium.envs.registration import load_env_creator, registry

    family, _, label = name.partition("/")
    entry = registry.get(pattern.format(label))
    if entry is not None and entry.entry_point is not None:
        creator = entry.entry_point
        return load_env_creator(creator) if isinstance(creator, str) else creator, dict(entry.kwargs)
    start, end = pattern.split("{}")
    labels = [known.removeprefix(start).removesuffix(end) for known in registry if known.startswith(start)]
    nearest = ", ".join(f"{family}/{found}" for found in difflib.get_close_matches(label, labels))
    hint = f"nearest: {nearest}" if nearest else f"write it as {form}"
    raise ValueError(f"{package} has no environment '{pattern.format(label)}' for {name}; {hint}")
