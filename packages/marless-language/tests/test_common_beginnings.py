"""The tokens that all prompts of a turn begin with: refused beginnings, and their use in learning."""

import numpy as np
import pytest

from marless.functions.environments.base import EnvironmentFault
from marless.functions.errors import BadRequest
from marless_language.episodes import Episodes, spec_of
from marless_language.experience import Sampled
from marless_language.protocol import Outcome, Turn
from marless_language.symbols import Symbols
from marless_language.trajectories import join, tensors_of

PROMPTS = np.array([[0, 1, 2], [0, 1, 0]], np.int32)
OTHERS = np.array([[0, 1, 2], [0, 2, 2]], np.int32)
ALLOWED = np.arange(3, dtype=np.int32)


class Asking:
    roles, sides, turns, context, tokenizer = ("echo",), (), 1, 4, Symbols(["a", "b", "c"])

    def __init__(self, common, prompts=PROMPTS):
        self._common, self._prompts = common, prompts

    def reset(self, rng, episodes, copies=1):
        return Turn(0, self._prompts, ALLOWED, 1, common=self._common)

    def reply(self, replies):
        return Outcome(np.zeros((2, 1)))


@pytest.mark.parametrize(
    ("prompts", "common", "line"),
    [
        (PROMPTS, -1, "common is -1: must be from 0 to 2"),
        (PROMPTS, 3, "common is 3: must be from 0 to 2"),
        (PROMPTS, 4, "common is 4: must be from 0 to 2"),
        (PROMPTS, 2.0, "common is of type float: must be a whole number from 0 to 2"),
        (PROMPTS, None, "common is of type NoneType: must be a whole number from 0 to 2"),
        (OTHERS, 2, "prompts differ in their first 2 tokens"),
    ],
)
def test_differing_prompt_prefix_is_no_common_beginning(prompts, common, line):
    assert Episodes("asking", Asking(2)).reset(np.random.default_rng(0), 2).common == 2
    with pytest.raises(EnvironmentFault) as fault:
        Episodes("asking", Asking(common, prompts)).reset(np.random.default_rng(0), 2)
    assert str(fault.value) == f"asking, turn 1, reset: {line}"


def test_learner_refuses_rollouts_with_other_common_beginning():
    turn = Turn(0, PROMPTS, ALLOWED, 1, common=2)

    def rollouts(*turns):
        tensors = {}
        for number, asked in enumerate(turns):
            sampled = Sampled.at_random(asked, np.random.default_rng(number))
            tensors |= tensors_of(number, [(asked, sampled)], np.zeros((2, 1)))
        return join(spec_of(Asking(2)), tensors, range(len(turns)))

    (replies,) = rollouts(turn, turn).turns
    assert replies.common == 2 and len(replies.tokens) == 4
    assert rollouts(turn._replace(common=0)).turns[0].common == 0
    other = np.where(PROMPTS == 0, 2, PROMPTS).astype(np.int32)
    for another in (turn._replace(common=1), turn._replace(common=0), turn._replace(prompts=other)):
        with pytest.raises(BadRequest, match="turn 1 has another role, prompt length, common beginning"):
            rollouts(turn, another)
