"""Plays these policies with torch and numpy: `Player().act(observations)`. Try: python play.py"""

import json
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.append(str(Path(__file__).parent))
from marless_spaces.team import TeamCodec


class Player:
    """Greedy actions of all agents. Call `start` when episodes begin."""

    def __init__(self, folder: Path = Path(__file__).parent) -> None:
        document = json.loads((folder / "policies.json").read_text(encoding="utf-8"))
        self.agents, self.team = document["agents"], TeamCodec.of(document)
        self.networks = {name: torch.export.load(folder / one["file"]).module() for name, one in self.agents.items()}
        self.start()

    def start(self) -> None:
        self.team.start()
        self.states: dict[str, dict[str, Any]] = {name: {} for name in self.agents}

    def act(
        self, observations: dict[Any, Any], masks: dict[Any, Any] | None = None, turn: Any = None
    ) -> dict[Any, Any]:
        """Actions for the environment's step, from observations of its step, both by agent. If policies remember turns,
        observations are of all agents, and `turn` is the agent that acts."""
        actions = {}
        for name, encoding in self.team.encode(observations, masks, turn).items():
            widths, rows = self.agents[name]["inputs"], len(encoding.rows)
            inputs = {key: torch.zeros(rows, width) for key, width in widths.items()}
            inputs |= {"observation": torch.from_numpy(encoding.rows), **self.states[name]}
            if "mask" in widths:
                legal = torch.ones(rows, widths["mask"]) if encoding.legal is None else torch.tensor(encoding.legal)
                inputs["mask"] = legal.to(torch.bool)
            outputs = self.networks[name](inputs)
            actions[encoding.key] = self.team.codecs[name].cast(outputs["action"].numpy(), encoding.batch)
            self.states[name] = {key[5:]: value for key, value in outputs.items() if key.startswith("next_")}
        return actions


if __name__ == "__main__":
    player = Player()
    print(player.act(player.team.examples()))
