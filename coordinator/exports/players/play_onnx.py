"""Plays these policies with onnxruntime and numpy: `Player().act({"agent_0": observation})`. Try: python play.py"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime


class Player:
    """Greedy actions of all agents; call `start` when episodes begin."""

    def __init__(self, folder: Path = Path(__file__).parent) -> None:
        self.agents = json.loads((folder / "policies.json").read_text(encoding="utf-8"))["agents"]
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # no warning that inputs have defaults
        self.networks = {
            name: onnxruntime.InferenceSession(folder / one["file"], options, providers=["CPUExecutionProvider"])
            for name, one in self.agents.items()
        }
        self.start()

    def start(self) -> None:
        self.states: dict[str, dict[str, Any]] = {name: {} for name in self.agents}

    def act(self, observations: dict[str, Any], masks: dict[str, Any] | None = None) -> dict[str, Any]:
        """An array with one action for each row of the observations of each agent."""
        actions = {}
        for name, seen in observations.items():
            width, network = self.agents[name]["inputs"]["observation"], self.networks[name]
            inputs = {"observation": np.reshape(seen, (-1, width)).astype(np.float32), **self.states[name]}
            if masks and name in masks:
                inputs["mask"] = np.reshape(masks[name], (-1, self.agents[name]["inputs"]["mask"])).astype(bool)
            names = [output.name for output in network.get_outputs()]
            found = dict(zip(names, network.run(names, inputs), strict=True))
            actions[name] = found["action"]
            self.states[name] = {key[5:]: value for key, value in found.items() if key.startswith("next_")}
        return actions


if __name__ == "__main__":
    player = Player()
    print(player.act({name: np.zeros(one["inputs"]["observation"]) for name, one in player.agents.items()}))
