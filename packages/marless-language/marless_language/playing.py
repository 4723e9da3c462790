"""Episodes of a language task played by the roles' adapters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from marless.functions.errors import BadRequest
from marless.functions.messages.actor import Match
from marless.functions.messages.team import Opponents, Team
from marless.functions.nn import gumbel
from marless.functions.serving import Tensors
from marless_language.episodes import Episodes
from marless_language.experience import Sampled
from marless_language.protocol import Outcome, Turn
from marless_language.specs import adapter_name

if TYPE_CHECKING:
    from marless_language.adapter_layout import Flat
    from marless_language.model.speaker import Speaker

Luck = Callable[[int], np.random.Generator]
"""The generator of the replies to a turn, by the number of the turn."""


@dataclass(frozen=True)
class Voice:
    """The way that a role speaks: by an adapter, drawn or greedily, or at random without an adapter."""

    adapter: "Flat | None"
    acting: Literal["drawn", "greedy", "random"] = "drawn"


class Transcript(NamedTuple):
    """The turns of episodes with the replies to them, and how the episodes ended."""

    turns: tuple[tuple[Turn, Sampled], ...]
    outcome: Outcome

    @property
    def replies(self) -> int:
        """The number of times that a role was asked, in all episodes together."""
        return int(sum(turn.is_asked.sum() for turn, _ in self.turns))


def voices(team: Team, policies: Tensors, greedy: bool = False) -> list[Voice]:
    """Of the team's roles in order. `greedy` as far as they have policies. Raises `BadRequest` for missing policies and
    for scripted opponents."""
    of_opponents = team.opponents or Opponents(agents=())
    every = []
    for role, group in enumerate(team.groups):
        acting = of_opponents.acting if role in of_opponents.agents else "drawn"
        if acting == "scripted":
            raise BadRequest("nobody speaks by a script")
        if acting == "random":
            every.append(Voice(None, "random"))
        else:
            every.append(Voice(_adapter(policies, group), "greedy" if greedy else acting))
    return every


def with_earlier(newest: Sequence[Voice], match: Match, earlier: Tensors) -> list[Voice]:
    """Return the voices of a match: roles of other sides speak by the earlier policies."""
    acting: Literal["drawn", "greedy"] = "greedy" if match.greedy else "drawn"
    return [
        voice if role in match.agents else Voice(_adapter(earlier, match.team.groups[role]), acting)
        for role, voice in enumerate(newest)
    ]


def _adapter(policies: Tensors, group: int) -> "Flat":
    name = adapter_name(group)
    if name not in policies:
        raise BadRequest(f"the task has no {name}")
    return policies[name]


def play(
    speaker: "Speaker",
    episodes: Episodes,
    voices: Sequence[Voice],
    rng: np.random.Generator,
    luck: Luck,
    count: int,
    copies: int = 1,
) -> Transcript:
    """Play `count` whole episodes. Each `copies` consecutive episodes begin alike, by `rng`."""
    turns: list[tuple[Turn, Sampled]] = []
    turn: Turn | Outcome = episodes.reset(rng, count, copies)
    while isinstance(turn, Turn):
        sampled = _reply(speaker, voices[turn.role], turn, luck(len(turns)))
        turns.append((turn, sampled))
        turn = episodes.reply(sampled.replies)
    return Transcript(tuple(turns), turn)


def _reply(speaker: "Speaker", voice: Voice, turn: Turn, rng: np.random.Generator) -> Sampled:
    from marless_language.model.sampling import sample

    shape = (len(turn.prompts), turn.length, len(turn.allowed))
    if voice.acting == "random":
        return Sampled.at_random(turn, rng)
    noise = gumbel.noise(rng.random(shape)).astype(np.float32) if voice.acting == "drawn" else None
    is_asked = turn.is_asked
    if is_asked.all():
        return sample(speaker, voice.adapter, turn, noise)
    replies, log_probability = np.zeros(shape[:2], np.int32), np.zeros(shape[:2], np.float32)
    if is_asked.any():
        part = sample(speaker, voice.adapter, turn.of_episodes(is_asked), None if noise is None else noise[is_asked])
        replies[is_asked], log_probability[is_asked] = part.replies, part.log_probability
    return Sampled.of(turn, replies, log_probability)
