"""Plays these policies with numpy and safetensors: `Player().act({"agent_0": observation})`. Try: python play.py"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

LAYERS: dict[str, Any] = {
    "normalise": lambda x, p: np.clip((x - p["mean"]) * p["inverse"], -10, 10),
    "linear": lambda x, p: x @ p["weight"] + p["bias"],
    "layer_norm": lambda x, p: (
        (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * p["gain"] + p["shift"]
    ),
    "tanh": lambda x, p: np.tanh(x),
    "relu": lambda x, p: np.maximum(x, 0),
}


def gru(x: Any, before: Any, p: dict[str, Any]) -> Any:
    """The hidden state after a step, as torch.nn.GRUCell has it."""
    (xr, xz, xn), (hr, hz, hn) = np.split(x @ p["x"] + p["bx"], 3, -1), np.split(before @ p["h"] + p["bh"], 3, -1)
    reset, update = (0.5 + 0.5 * np.tanh(0.5 * part) for part in (xr + hr, xz + hz))
    return (1 - update) * np.tanh(xn + reset * hn) + update * before


class Player:
    """Greedy actions of all agents; call `start` when episodes begin."""

    def __init__(self, folder: Path = Path(__file__).parent) -> None:
        self.agents = json.loads((folder / "policies.json").read_text(encoding="utf-8"))["agents"]
        self.tensors = load_file(folder / "policies.safetensors")
        self.start()

    def start(self) -> None:
        self.states: dict[str, dict[str, Any]] = {
            name: {key: np.zeros((1, width), np.float32) for key, width in one["states"].items()}
            for name, one in self.agents.items()
        }

    def act(self, observations: dict[str, Any], masks: dict[str, Any] | None = None) -> dict[str, Any]:
        """An array with one action for each row of the observations of each agent."""
        masks = masks or {}
        return {name: self.act_one(name, seen, masks.get(name)) for name, seen in observations.items()}

    def outputs(self, name: str, seen: Any) -> Any:
        """The network's outputs, one row for each observation."""
        x, state = np.reshape(seen, (-1, self.agents[name]["inputs"]["observation"])), self.states[name]
        x = x.astype(np.float32)
        if "last_action" in state:
            x = np.concatenate([x, np.broadcast_to(state["last_action"], (len(x), state["last_action"].shape[1]))], 1)
        for layer in self.agents[name]["layers"]:
            own = {key: self.tensors[tensor] for key, tensor in layer["tensors"].items()}
            if layer["type"] == "gru":
                x = state["hidden"] = gru(x, state["hidden"], own)
            else:
                x = LAYERS[layer["type"]](x, own)
        return x

    def act_one(self, name: str, seen: Any, mask: Any) -> Any:
        """The agent's actions ``[rows, ...]`` for what it sees ``[rows, F]``."""
        x, actions, state = self.outputs(name, seen), self.agents[name]["actions"], self.states[name]
        if "low" in actions:
            low, high = (np.array(actions[key], np.float32) for key in ("low", "high"))
            mean = x[:, : len(low)]
            share = 0.5 * ((np.clip(mean, -1, 1) if actions["clipped"] else np.tanh(mean)) + 1)
            action = np.clip((1 - share) * low + share * high, low, high)
            state |= {"last_action": 2 * (action - low) / (high - low) - 1} if "last_action" in state else {}
            return action
        x = x if mask is None else np.where(np.reshape(mask, (-1, x.shape[1])), x, np.float32(-1e9))
        chosen = [part.argmax(-1) for part in np.split(x, np.cumsum(actions["counts"])[:-1], -1)]
        if "last_action" in state:
            one_hots = [np.eye(n, dtype=np.float32)[one] for n, one in zip(actions["counts"], chosen, strict=True)]
            state["last_action"] = np.concatenate(one_hots, -1)
        return actions["first"] + (chosen[0] if actions["single"] else np.stack(chosen, -1))


if __name__ == "__main__":
    player = Player()
    print(player.act({name: np.zeros(one["inputs"]["observation"]) for name, one in player.agents.items()}))
