"""Plays these policies with torch alone: `Player().act({"agent_0": observation})`. Try: python play.py"""

import json
from pathlib import Path
from typing import Any

import torch


class Player:
    """Greedy actions of all agents; call `start` when episodes begin."""

    def __init__(self, folder: Path = Path(__file__).parent) -> None:
        self.agents = json.loads((folder / "policies.json").read_text(encoding="utf-8"))["agents"]
        self.networks = {name: torch.export.load(folder / one["file"]).module() for name, one in self.agents.items()}
        self.start()

    def start(self) -> None:
        self.states: dict[str, dict[str, Any]] = {name: {} for name in self.agents}

    def act(self, observations: dict[str, Any], masks: dict[str, Any] | None = None) -> dict[str, Any]:
        """A tensor with one action for each row of the observations of each agent."""
        actions = {}
        for name, seen in observations.items():
            widths = self.agents[name]["inputs"]
            rows = torch.as_tensor(seen, dtype=torch.float32).reshape(-1, widths["observation"])
            inputs = {key: torch.zeros(len(rows), width) for key, width in widths.items()}
            inputs |= {"observation": rows, **self.states[name]}
            if "mask" in widths:
                legal = masks[name] if masks and name in masks else torch.ones(len(rows), widths["mask"])
                inputs["mask"] = torch.as_tensor(legal, dtype=torch.bool).reshape(-1, widths["mask"])
            found = self.networks[name](inputs)
            actions[name] = found["action"]
            self.states[name] = {key[5:]: value for key, value in found.items() if key.startswith("next_")}
        return actions


if __name__ == "__main__":
    player = Player()
    print(player.act({name: torch.zeros(one["inputs"]["observation"]) for name, one in player.agents.items()}))
