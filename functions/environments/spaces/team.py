"""Check the inputs of a team's policies, call after call: observations of some agents, or of all in a game of turns."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from .agent import AgentCodec, Seen
from .observations import Array, NoAction, SpaceError

_SAY_TURN = "say whose turn it is, as in act(observations, turn=agent)"


class TeamCodec:
    """The spaces of the agents that have a policy. `others` have none.

    `carrying` are agents with policies that carry a hidden state or the last action from step to step. They act like in
    training only with the same inputs. So every call must be one environment, or a batch of as many. In a game of turns
    (`turns`) it must be every turn, also turns of waiting agents, which "do" the first action.
    """

    def __init__(
        self,
        codecs: Mapping[str, AgentCodec],
        others: Iterable[str] = (),
        turns: bool = False,
        carrying: Collection[str] = (),
    ) -> None:
        self.codecs, self._known, self._turns = codecs, sorted({*codecs, *others}), turns
        self._carrying = carrying
        self.start()

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "TeamCodec":
        """The spaces of exported policies, which `document`, their policies.json, describes."""
        agents = document["agents"]
        codecs = {name: AgentCodec(name, settings["spaces"]) for name, settings in agents.items()}
        carrying = {name for name, settings in agents.items() if settings["states"]}
        return cls(codecs, document["without_policy"], document["turns"], carrying)

    def start(self) -> None:
        """Begins new episodes."""
        # The size of the batch by agent, once it was given one.
        self._rows: dict[str, int] = {}
        # The agents of the last call, and which of them had a choice in each row of a batch.
        self._present: set[str] | None = None
        self._choosing: dict[str, Array] = {}

    def examples(self) -> dict[str, Any]:
        """Observations of all agents for a trial. In a game of turns it is the first one's."""
        observations = {name: codec.example() for name, codec in self.codecs.items()}
        if not self._turns:
            return observations
        masks = {name: codec.action.first | (not place) for place, (name, codec) in enumerate(self.codecs.items())}
        return {name: {"observation": row, "action_mask": masks[name]} for name, row in observations.items()}

    def encode(self, observations: Any, masks: Any = None, turn: Any = None) -> dict[str, Seen]:
        """The observations of some agents by name. Agents are known by the text of their keys.

        In a game of turns `turn` is the agent that acts. The others wait, for all masks. Raises `SpaceError` for other
        types than a dictionary, unknown agents, and two keys with equal texts. Raises it too if the policies' carried
        state would differ from training.
        """
        acting = None if turn is None else self._acting(turn)
        try:
            encodings = self._encode_each(observations, masks, acting)
        except NoAction as error:
            if acting is None and self._turns:
                raise SpaceError(f"{error}: {_SAY_TURN}") from error
            raise
        if acting is not None and acting in self.codecs and acting not in encodings:
            raise SpaceError(f"it is the turn of agent {turn!r}, whose observation is missing")
        rows = {name: len(encoding.rows) for name, encoding in encodings.items() if name in self._carrying}
        self._require_equal_batches(rows)
        if self._turns and self._carrying:
            self._require_every_turn(encodings, acting)
        self._rows |= rows
        return encodings

    def _acting(self, turn: Any) -> str:
        if not self._turns:
            raise SpaceError(f"it is nobody's turn, also not that of {turn!r}: agents of this task act at once")
        if str(turn) not in self._known:
            raise SpaceError(f"it is the turn of agent {turn!r}; there are {', '.join(map(repr, self._known))}")
        return str(turn)

    def _encode_each(self, observations: Any, masks: Any, acting: str | None) -> dict[str, Seen]:
        for noun, by_agent in (("observations", observations), ("masks", {} if masks is None else masks)):
            if not isinstance(by_agent, Mapping):
                raise SpaceError(f"{noun} are a dictionary by agent, not {type(by_agent).__name__}")
        legal = {str(key): mask for key, mask in (masks or {}).items()}
        if strangers := legal.keys() - {*self._known}:
            raise SpaceError(f"masks are of agent {min(strangers)!r}; there are {', '.join(map(repr, self._known))}")
        encodings: dict[str, Seen] = {}
        for key, observation in observations.items():
            if (name := str(key)) not in self.codecs:
                raise SpaceError(f"no policy plays agent {key!r}; there are {', '.join(map(repr, self.codecs))}")
            if name in encodings:
                raise SpaceError(f"agent {key!r} is given twice: agents are known by the text of their names")
            waits = acting not in (None, name)
            encodings[name] = self.codecs[name].encode(key, observation, legal.get(name), waits)
        return encodings

    def _require_equal_batches(self, rows: Mapping[str, int]) -> None:
        for name, count in rows.items():
            if (before := self._rows.get(name, count)) != count:
                raise SpaceError(f"{name} began with {before} environments and got {count}; call start()")

    def _require_every_turn(self, encodings: Mapping[str, Seen], acting: str | None) -> None:
        """Takes note of the agents in play and of the actor. Raises `SpaceError` unless policies were given every
        turn."""
        missing = [name for name in self.codecs if name not in encodings]
        if missing and self._present is None:
            raise SpaceError(
                f"agent {missing[0]!r} is missing: these policies remember every turn, also while their agents wait, so"
                " act takes the observations of all agents at every turn, and turn=agent says who acts"
            )
        if back := [name for name in encodings if name not in (encodings if self._present is None else self._present)]:
            raise SpaceError(
                f"agent {back[0]!r} is back after a turn without it: these policies remember every turn, also while"
                " their agents wait; begin again with start()"
            )
        choosing = {name: self._has_choice(name, encoding) for name, encoding in encodings.items()}
        if acting is None:
            self._require_one_choice(choosing)
        self._present, self._choosing = set(encodings), choosing

    def _require_one_choice(self, choosing: Mapping[str, Array]) -> None:
        """Raises `SpaceError` if masks leave open which agent is in turn, or a turn is missing."""
        if len({len(rows) for rows in choosing.values()}) > 1:
            raise SpaceError("agents have different numbers of observations; in a game of turns all see every turn")
        if (np.sum([*choosing.values()], axis=0) > 1).any():
            raise SpaceError(f"more than one agent has a choice in a game of turns: {_SAY_TURN}")
        # If they are left out, the turns of agents without a policy stay unseen.
        for name in self._carrying if len(self.codecs) < len(self._known) else ():
            if name in choosing and name in self._choosing and (choosing[name] & self._choosing[name]).any():
                raise SpaceError(
                    f"agent {name!r} has a choice twice in a row, maybe without the turns between: {_SAY_TURN}"
                )

    def _has_choice(self, name: str, encoding: Seen) -> Array:
        """Return True in each row where more than the first action is legal."""
        action = self.codecs[name].action
        legal = np.ones((len(encoding.rows), action.actions), np.bool_) if encoding.legal is None else encoding.legal
        return np.asarray((legal != action.legal(action.first)).any(axis=-1))
