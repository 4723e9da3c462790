"""Plays these policies with onnxruntime and numpy: `Player().act(observations)`. Try: python play.py"""

import json
import sys
from pathlib import Path
from typing import Any

import onnxruntime

sys.path.append(str(Path(__file__).parent))
from marless_spaces.team import TeamCodec


class Player:
    """Greedy actions of all agents. Call `start` when episodes begin."""

    def __init__(self, folder: Path = Path(__file__).parent) -> None:
        document = json.loads((folder / "policies.json").read_text(encoding="utf-8"))
        self.agents, self.team = document["agents"], TeamCodec.of(document)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # no warning that inputs have defaults
        self.networks = {
            name: onnxruntime.InferenceSession(folder / one["file"], options, providers=["CPUExecutionProvider"])
            for name, one in self.agents.items()
        }
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
            inputs = {"observation": encoding.rows, **self.states[name]}
            if encoding.legal is not None:
                inputs["mask"] = encoding.legal
            names = [output.name for output in self.networks[name].get_outputs()]
            outputs = dict(zip(names, self.networks[name].run(names, inputs), strict=True))
            actions[encoding.key] = self.team.codecs[name].cast(outputs["action"], encoding.batch)
            self.states[name] = {key[5:]: value for key, value in outputs.items() if key.startswith("next_")}
        return actions


if __name__ == "__main__":
    player = Player()
    print(player.act(player.team.examples()))
