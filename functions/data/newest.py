"""Which earlier rounds an algorithm learns from."""

from collections.abc import Sequence

from functions.contract import Past


def newest(rounds: Sequence[Past], rollout_steps: int, most_steps: int) -> tuple[Past, ...]:
    """The last of `rounds`, in their order, with at most `most_steps` environment steps together, the last always.

    A unit has `rollout_steps`.
    """
    kept: list[Past] = []
    steps = 0
    for round_ in reversed(rounds):
        steps += round_.rollouts * rollout_steps
        if kept and steps > most_steps:
            break
        kept.append(round_)
    return tuple(reversed(kept))
