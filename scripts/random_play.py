"""Returns of uniformly random play, which targets and shares of a gain are counted from.

    python -m scripts.random_play [NAME ...]

It plays the tasks below (all by default) and writes `docs/results/random-play.json`. Per name this has the env task,
the mean return (sum over agents, undiscounted), its standard error and the number of episodes. Pages and
`benchmarks/suite.toml` take their values from there.
"""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from marless.functions.environments.base import ActionArray, AgentClass, EnvTask, Observation
from marless.functions.environments.registry import make
from marless.functions.episode_returns import Episodes
from marless.functions.randomness import generator

RECORD = Path(__file__).parents[1] / "docs" / "results" / "random-play.json"
SEED = 100
# Sides that also play at random in training, so that a run's return belongs to the others (`opponents.side`).
OPPONENTS = {"adversary": 0}
# Environments that step together, and fewer episodes if each is a Python object.
NUM_ENVS, EPISODES, SLOW_EPISODES = 250, 20_000, 2_000
SLOW = ("foraging",)
TASKS = {
    "spread_3": EnvTask(name="mpe/simple_spread", agents=3),
    "spread_6": EnvTask(name="mpe/simple_spread", agents=6),
    "adversary": EnvTask(name="mpe/simple_adversary"),
    "speaker_listener": EnvTask(name="mpe/simple_speaker_listener"),
    "foraging": EnvTask(name="lbf/5x5-2p-1f"),
    "blind_spread": EnvTask(name="roles/blind_spread"),
    "blind_spread_8": EnvTask(name="roles/blind_spread", agents=8, options={"roles": 4, "order": "contiguous"}),
    "apprentices": EnvTask(name="roles/apprentices"),
    "dial": EnvTask(name="toy/dial"),
}


def main(names: list[str]) -> None:
    """Plays the tasks and renews their entries in the record."""
    record = read()
    for name in names or TASKS:
        record[name] = play(TASKS[name], SLOW_EPISODES if name in SLOW else EPISODES, OPPONENTS.get(name))
        print(name, record[name], file=sys.stderr)
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def read() -> dict[str, Any]:
    """Return the stored entries by name."""
    stored: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    return stored


def play(task: EnvTask, episodes: int, opponents: int | None = None, num_envs: int = NUM_ENVS) -> dict[str, Any]:
    """At least `episodes` whole episodes. The same number of every environment counts, so that short ones do not count
    more often. Rewards of the side `opponents` are left out."""
    environment = make(task, num_envs)
    rng = generator(SEED, "random-play", task.name)
    seen, each = environment.reset(rng), -(-episodes // num_envs)
    returns, ended = Episodes(num_envs, len(environment.spec.agents)), np.zeros(num_envs, int)
    while ended.min() < each:
        step = environment.step(tuple(_actions(rng, kind, seen, n) for n, kind in enumerate(environment.spec.classes)))
        returns.add(step, ended < each)
        ended += step.ended
        seen = step.observation
    sides = environment.spec.sides
    own = [agent for agent in range(len(environment.spec.agents)) if not sides or sides[agent] != opponents]
    values = returns.agent_returns()[:, own].sum(axis=1)
    return {
        "task": msgspec.to_builtins(task),
        "mean": float(values.mean()),
        "standard_error": float(values.std(ddof=1) / np.sqrt(len(values))),
        "episodes": len(values),
    }


def _actions(rng: np.random.Generator, kind: AgentClass, seen: Observation, index: int) -> ActionArray:
    """Legal choices ``[E, n]``, or continuous actions ``[E, n, A]``, with equal probability."""
    noise = rng.random((len(seen.alive), len(kind.agents), kind.actions))
    if kind.continuous:
        low, high = np.array(kind.low), np.array(kind.high)
        force: ActionArray = (low + noise * (high - low)).astype(np.float32)
        return force
    if seen.masks is not None:
        noise = np.where(seen.masks[index], noise, -1.0)
    choice: ActionArray = noise.argmax(axis=-1)
    return choice


if __name__ == "__main__":
    main(sys.argv[1:])
