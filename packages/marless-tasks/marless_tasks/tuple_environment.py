"""Gymnasium environments of several agents, with tuples of spaces, observations, actions and rewards, behind the
interface of PettingZoo's `ParallelEnv`."""

import difflib
from collections.abc import Callable
from typing import Any

from marless.functions.environments.base import EnvTask, VectorEnvironment
from marless.functions.environments.pettingzoo.adapter import assemble
from marless.functions.environments.pettingzoo.factory import build, module_of


class TupleEnvironment:
    """`environment` with named agents. All are alive until the episode ends.

    Such environments return "done" at every end. `timed_out` says whether only the time limit ended the episode.
    """

    def __init__(self, environment: Any, horizon: int, timed_out: Callable[[Any], bool]) -> None:
        self.possible_agents = [f"agent_{i}" for i in range(len(environment.action_space))]
        self.agents: list[str] = []
        self.max_cycles = horizon
        self._environment = environment
        self._timed_out = timed_out
        self._index = {name: i for i, name in enumerate(self.possible_agents)}

    def observation_space(self, agent: str) -> Any:
        """The observation space of `agent`."""
        return self._environment.observation_space[self._index[agent]]

    def action_space(self, agent: str) -> Any:
        """The action space of `agent`."""
        return self._environment.action_space[self._index[agent]]

    def reset(self, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """A new episode."""
        observations, _ = self._environment.reset(seed=seed)
        self.agents = list(self.possible_agents)
        return self._by_agent(observations), {}

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]]:
        """One step of all agents."""
        observations, rewards, done, gym_truncated, _ = self._environment.step(
            [actions[name] for name in self.possible_agents]
        )
        truncated = bool(gym_truncated) or (bool(done) and self._timed_out(self._environment))
        terminated = bool(done) and not truncated
        terminations = dict.fromkeys(self.possible_agents, terminated)
        truncations = dict.fromkeys(self.possible_agents, truncated) if truncated != terminated else terminations
        if done or truncated:
            self.agents = []
        return self._by_agent(observations), self._by_agent(rewards), terminations, truncations, {}

    def close(self) -> None:
        """Closes the environment."""
        self._environment.close()

    def _by_agent(self, values: Any) -> dict[str, Any]:
        return dict(zip(self.possible_agents, values, strict=True))


def make_tuple_environments(
    task: EnvTask,
    num_envs: int,
    creator: Callable[..., Any],
    defaults: dict[str, Any],
    horizon_option: str,
    wrap: Callable[[Any, int], TupleEnvironment],
) -> VectorEnvironment:
    """Return `num_envs` environments of `creator`, wrapped by `wrap` with the horizon. Raises as `assemble`.

    Arguments of `creator` are `defaults`, then `task.options`. `horizon_option` is its name for our option `horizon`.
    """

    def create(**options: Any) -> TupleEnvironment:
        settings = defaults | options
        settings[horizon_option] = task.options.get("horizon", settings[horizon_option])
        return wrap(creator(**settings), settings[horizon_option])

    return assemble(task, num_envs, lambda: build(task, create))


def registered_environment(
    name: str, package: str, pattern: str, form: str
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The class and arguments that `package` registers with Gymnasium for the env task `name`, ``family/label``.

    `pattern` makes an identifier of the package from a label: ``"rware-{}-v2"``. `form` describes the names of env
    tasks. Raises `ValueError` with the nearest names or else `form`, `MissingExtra` or `EnvironmentFault`. Gymnasium's
    `make` is not used because it adds wrappers.
    """
    module_of(name, package)
    from gymnasium.envs.registration import load_env_creator, registry

    family, _, label = name.partition("/")
    entry = registry.get(pattern.format(label))
    if entry is not None and entry.entry_point is not None:
        creator = entry.entry_point
        return load_env_creator(creator) if isinstance(creator, str) else creator, dict(entry.kwargs)
    start, end = pattern.split("{}")
    labels = [task_id.removeprefix(start).removesuffix(end) for task_id in registry if task_id.startswith(start)]
    nearest = ", ".join(f"{family}/{match}" for match in difflib.get_close_matches(label, labels))
    hint = f"nearest: {nearest}" if nearest else f"write it as {form}"
    raise ValueError(f"{package} has no environment '{pattern.format(label)}' for {name}; {hint}")
