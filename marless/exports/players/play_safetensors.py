"""Plays these policies with numpy and safetensors: `Player().act(observations)`. Try: python play.py"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

sys.path.append(str(Path(__file__).parent))
from marless_attention import PlayedAttention
from marless_layers import KINDS, LayerNorm, forward
from marless_spaces.agent import Seen
from marless_spaces.orders import EntityOrder
from marless_spaces.team import TeamCodec


class Player:
    """Greedy actions of all agents. Call `start` when episodes begin."""

    def __init__(self, folder: Path = Path(__file__).parent) -> None:
        document = json.loads((folder / "policies.json").read_text(encoding="utf-8"))
        self.agents, self.team = document["agents"], TeamCodec.of(document)
        tensors = load_file(folder / "policies.safetensors")
        self.layers = {name: [_layer(layer, tensors) for layer in one["layers"]] for name, one in self.agents.items()}
        self.orders = {name: EntityOrder(**one["order"]) for name, one in self.agents.items() if one["order"]}
        self.start()

    def start(self) -> None:
        self.team.start()
        self.states: dict[str, dict[str, Any]] = {
            name: {key: np.zeros((1, width), np.float32) for key, width in one["states"].items()}
            for name, one in self.agents.items()
        }

    def act(
        self, observations: dict[Any, Any], masks: dict[Any, Any] | None = None, turn: Any = None
    ) -> dict[Any, Any]:
        """Actions for the environment's step, from observations of its step, both by agent. If policies remember turns,
        observations are of all agents, and `turn` is the agent that acts."""
        encodings = self.team.encode(observations, masks, turn)
        return {
            encoding.key: self.team.codecs[name].decode(self.actions_of(name, encoding), encoding.batch)
            for name, encoding in encodings.items()
        }

    def outputs(self, name: str, x: Any) -> Any:
        """The network's outputs for rows of numbers."""
        x = self.orders[name].sort(x) if name in self.orders else x
        state = {key: np.repeat(rows, len(x) // len(rows), axis=0) for key, rows in self.states[name].items()}
        if "last_action" in state:
            x = np.concatenate([x, state["last_action"]], axis=1)
        x, hidden = forward(self.layers[name], x, state.get("hidden"))
        self.states[name] |= {} if hidden is None else {"hidden": hidden}
        return x

    def actions_of(self, name: str, encoding: Seen) -> Any:
        """Choices counted from 0, or numbers within their bounds, one row for each observation."""
        x, actions, state = self.outputs(name, encoding.rows), self.agents[name]["actions"], self.states[name]
        if "low" in actions:
            low, high, scale, offset = (
                np.array(actions[key], np.float32) for key in ("low", "high", "last_scale", "last_offset")
            )
            mean = x[:, : len(low)]
            unit_action = np.clip(mean, -1, 1) if actions["clipped"] else np.tanh(mean)
            share = 0.5 * (unit_action + 1)
            state |= {"last_action": unit_action * scale + offset} if "last_action" in state else {}
            return np.clip((1 - share) * low + share * high, low, high)
        x = x if encoding.legal is None else np.where(encoding.legal, x, np.float32(-1e9))
        indices = [part.argmax(-1) for part in np.split(x, np.cumsum(actions["counts"])[:-1], -1)]
        if "last_action" in state:
            one_hots = [np.eye(n, dtype=np.float32)[one] for n, one in zip(actions["counts"], indices, strict=True)]
            state["last_action"] = np.concatenate(one_hots, -1)
        return indices[0] if actions["single"] else np.stack(indices, -1)


def _layer(described: dict[str, Any], tensors: dict[str, Any]) -> Any:
    parameters = {name: tensors[key] for name, key in described["tensors"].items()}
    if "entities" in described:
        norm = LayerNorm(parameters["gain"], parameters["shift"])
        return PlayedAttention(described["entities"], norm.forward, parameters)
    return KINDS[described["type"]](**parameters)


if __name__ == "__main__":
    player = Player()
    print(player.act(player.team.examples()))
