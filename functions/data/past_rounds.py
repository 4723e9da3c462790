"""The earlier rounds that a replay buffer holds."""

from collections.abc import Sequence

from marless.functions.messages.learner import Past


def newest_rounds(rounds: Sequence[Past], rollout_steps: int, most_steps: int) -> tuple[Past, ...]:
    """The last of `rounds`, in order: at most `most_steps` environment steps in total, but always the last round.

    A rollout has `rollout_steps` environment steps.
    """
    newest: list[Past] = []
    steps = 0
    for round_ in reversed(rounds):
        steps += round_.rollouts * rollout_steps
        if newest and steps > most_steps:
            break
        newest.append(round_)
    return tuple(reversed(newest))
