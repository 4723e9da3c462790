"""The Multi-Particle Environments by task name; a scenario is one file, one entry here and one name in the registry.

Options are named as in mpe2. Every scenario takes `max_cycles`, the length of an episode in steps, and
`continuous_actions`: agents then act in numbers between 0 and 1, see `functions.environments.mpe.actions`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from functions.environments.base import EnvTask
from functions.environments.mpe.engine import Engine, Scenario, WorldState
from functions.environments.mpe.options import (
    Check,
    Size,
    any_number,
    checked,
    exactly,
    flag,
    ratio,
    two_sides,
    whole,
)
from functions.environments.mpe.simple import Simple
from functions.environments.mpe.simple_adversary import SimpleAdversary
from functions.environments.mpe.simple_crypto import SimpleCrypto
from functions.environments.mpe.simple_push import SimplePush
from functions.environments.mpe.simple_reference import SimpleReference
from functions.environments.mpe.simple_speaker_listener import SimpleSpeakerListener
from functions.environments.mpe.simple_spread import SimpleSpread
from functions.environments.mpe.simple_tag import SimpleTag
from functions.environments.mpe.simple_world_comm import SimpleWorldComm

__all__ = ["SCENARIOS", "Engine", "Entry", "WorldState", "make"]

_COMMON: dict[str, Check] = {"max_cycles": whole(1), "continuous_actions": flag}
_MAX_CYCLES = 25
_TAG: dict[str, Check] = {"num_good": whole(1), "num_adversaries": whole(1), "num_obstacles": whole(0)}


@dataclass(frozen=True)
class Entry:
    """A scenario's constructor, which takes the arguments that `size` gives and `options` by name."""

    build: Callable[..., Scenario]
    size: Size
    options: Mapping[str, Check] = field(default_factory=dict)


SCENARIOS: dict[str, Entry] = {
    "mpe/simple": Entry(Simple, exactly(1)),
    "mpe/simple_adversary": Entry(SimpleAdversary, any_number(default=3, least=2)),
    "mpe/simple_crypto": Entry(SimpleCrypto, exactly(3)),
    "mpe/simple_push": Entry(SimplePush, exactly(2)),
    "mpe/simple_reference": Entry(SimpleReference, exactly(2), {"local_ratio": ratio}),
    "mpe/simple_speaker_listener": Entry(SimpleSpeakerListener, exactly(2)),
    "mpe/simple_spread": Entry(SimpleSpread, any_number(default=3, least=1), {"local_ratio": ratio}),
    "mpe/simple_tag": Entry(SimpleTag, two_sides(num_good=1, num_adversaries=3), _TAG),
    # Without food mpe2 has no nearest food to pay for, and fails.
    "mpe/simple_world_comm": Entry(
        SimpleWorldComm,
        two_sides(num_good=2, num_adversaries=4),
        _TAG | {"num_food": whole(1), "num_forests": whole(0)},
    ),
}


def make(task: EnvTask, num_envs: int) -> Engine:
    """`num_envs` copies of the task; raises `ValueError`, one line naming what cannot be and what can."""
    if task.name not in SCENARIOS:
        raise ValueError(f"no task {task.name!r} (there are: {', '.join(sorted(SCENARIOS))})")
    if num_envs < 1:
        raise ValueError(f"{task.name}: num_envs is a whole number from 1, not {num_envs}")
    entry = SCENARIOS[task.name]
    options = checked(task, {**_COMMON, **entry.options})
    arguments = {name: value for name, value in options.items() if name not in _COMMON}
    scenario = entry.build(**arguments | entry.size(task, options))
    return Engine(scenario, num_envs, options.get("max_cycles", _MAX_CYCLES), options.get("continuous_actions", False))
