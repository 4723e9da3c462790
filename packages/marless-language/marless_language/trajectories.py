"""Rollouts of a language task: the tensors of their objects, and the learning data of roles."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.functions.data.trajectory import EARLIER, rollout_prefix, tensors_below
from marless.functions.environments.base import EnvSpec
from marless.functions.errors import BadRequest
from marless.functions.messages.team import Team
from marless_language.experience import Replies, Sampled
from marless_language.protocol import Turn

Array = NDArray[Any]

# Of a turn: its tokens, the length of the prompt, its role, and the fields of `Replies` about replies.
_TOKENS, _PROMPT, _ROLE, _ALLOWED, _LOG_PROBABILITY, _MASK, _LEGAL, _COMMON = (
    "tokens",
    "prompt",
    "role",
    "allowed",
    "log_probability",
    "mask",
    "legal",
    "common",
)
# Of a rollout ``[E, roles]``.
_REWARD = "reward"


def tensors_of(rollout: int, turns: Sequence[tuple[Turn, Sampled]], rewards: NDArray[np.float64]) -> dict[str, Array]:
    """A rollout's tensors by name. Rewards are ``[E, roles]``."""
    tensors: dict[str, Array] = {_REWARD: rewards}
    for number, (turn, sampled) in enumerate(turns):
        arrays: dict[str, Array] = {
            _TOKENS: np.concatenate([turn.prompts, sampled.replies], axis=1, dtype=np.int32),
            _PROMPT: np.array([turn.prompts.shape[1]], np.int32),
            _ROLE: np.array([turn.role], np.int32),
            _ALLOWED: turn.allowed,
            _LOG_PROBABILITY: sampled.log_probability,
            _MASK: sampled.mask,
        }
        if turn.legal is not None:
            arrays[_LEGAL] = turn.legal
        if turn.common:
            arrays[_COMMON] = np.array([turn.common], np.int32)
        tensors |= {f"{_turn(number)}/{name}": array for name, array in arrays.items()}
    return {f"{rollout_prefix(rollout)}/{name}": array for name, array in tensors.items()}


def _turn(number: int) -> str:
    return f"turn/{number:03d}"


@dataclass(frozen=True)
class Experience:
    """A round's replies by turn, joined over its rollouts in order."""

    rollouts: int
    turns: tuple[Replies, ...]

    def of_group(self, team: Team, group: int, copies: int) -> list[Replies]:
        """Return the replies that a group learns from: its roles' replies, in groups of `copies` that began alike."""
        roles = [role for role in team.learners if team.groups[role] == group]
        return [
            replies._replace(copies=copies) for replies in self.turns if replies.role in roles and len(replies.tokens)
        ]


def join(spec: EnvSpec, tensors: Mapping[str, Array], rollouts: Sequence[int]) -> Experience:
    """Joins the tensors of `rollouts`, which `tensors_of` names. Raises `BadRequest` where their turns differ."""
    by_rollout = [tensors_below(tensors, f"{rollout_prefix(rollout)}/") for rollout in rollouts]
    turns = [_joined_turn(spec, by_rollout, number) for number in range(spec.horizon)]
    return Experience(len(rollouts), tuple(turn for turn in turns if turn is not None))


def _joined_turn(spec: EnvSpec, by_rollout: list[dict[str, Array]], number: int) -> Replies | None:
    """Return None for a turn that is in no rollout."""
    parts = [tensors_below(tensors, f"{_turn(number)}/") for tensors in by_rollout]
    if not any(parts):
        return None
    if not all(parts):
        raise BadRequest(f"turn {number + 1} is not in all rollouts; all of them need as many turns")
    first = parts[0]
    alike = {_PROMPT, _ROLE, _ALLOWED, _COMMON} & first.keys()
    role, common = int(first[_ROLE][0]), int(first[_COMMON][0]) if _COMMON in first else 0
    if not all(
        part.keys() == first.keys()
        and all(np.array_equal(part[name], first[name]) for name in alike)
        and np.array_equal(part[_TOKENS][0, :common], first[_TOKENS][0, :common])
        for part in parts
    ):
        raise BadRequest(
            f"turn {number + 1} has another role, prompt length, common beginning or allowed tokens in some rollouts"
        )
    places = [place for place, tensors in enumerate(by_rollout) if not _is_earlier(tensors, role)]

    def rows(arrays: list[Array]) -> Array:
        return np.concatenate([arrays[place] for place in places]) if places else arrays[0][:0]

    return Replies(
        role=role,
        turn=number,
        tokens=rows([part[_TOKENS] for part in parts]),
        prompt=int(first[_PROMPT][0]),
        allowed=first[_ALLOWED],
        log_probability=rows([part[_LOG_PROBABILITY] for part in parts]),
        mask=rows([part[_MASK] for part in parts]),
        legal=rows([part[_LEGAL] for part in parts]) if _LEGAL in first else None,
        reward=rows([tensors[_REWARD][:, role] for tensors in by_rollout]),
        copies=1,
        common=common,
    )


def _is_earlier(tensors: Mapping[str, Array], role: int) -> bool:
    """Return whether the role spoke by policies of an earlier round."""
    return EARLIER in tensors and bool(tensors[EARLIER][role])
