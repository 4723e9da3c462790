"""Environments of odd forms, drawn by a number.

They vary the place of masks, the spaces, the end of `close`, missing observations, and events in the middle of an
episode. `Odd.says` is the text of the one line about it, or '' if the environment is right."""

import sys

import numpy as np
from gymnasium import spaces
from masked_games import PLACES, STEPS, Game

HELD = ("method", "one attribute", "dict", "Dict", "plural", "None beside the plural")
CLOSES = ("well", "raises", "exits")
FAULTS = {
    "": "",
    "sees None": "the observation of agent 'a' is None",
    "sees None in part": "is None in part",
    "exits": "step: SystemExit, which ends a program: no window",
    "raises": "step: OSError: no map",
    "mask of words": "the action mask of agent 'a' is not numeric",
    "mask of another size": "the action mask of agent 'a' has shape",
    "no mask": "action_mask",
}


class Odd(Game):
    """Two agents, each with one legal action of four in every step."""

    def __init__(self, number=0):
        rng = np.random.default_rng([56, number])
        self.form, held, self.closes = (str(rng.choice(names)) for names in (PLACES, HELD, CLOSES))
        super().__init__(self.form, does=str(rng.choice(["choice", "choices"])))
        self.fault = str(rng.choice(list(FAULTS))) if rng.random() < 0.5 else ""
        self.says, self.at = FAULTS[self.fault], int(rng.integers(1, STEPS))
        if self.fault == "sees None in part" and self.form in ("mask alone", "infos"):
            self.fault = self.says = ""
        if held != "method":
            self.hold(held)

    def hold(self, held):
        for name, space in (("observation_space", self.space), ("action_space", self.acts)):
            by_agent = dict.fromkeys(self.possible_agents, space)
            if held in ("plural", "None beside the plural"):
                setattr(self, f"{name}s", by_agent)
                setattr(self, name, None)
            else:
                setattr(self, name, {"one attribute": space, "dict": by_agent}.get(held) or spaces.Dict(by_agent))

    def close(self):
        if self.closes == "exits":
            sys.exit()
        if self.closes == "raises":
            self.window.quit()

    def shown(self):
        seen, infos = super().shown()
        return (seen, infos) if self.t < self.at or not self.fault else self.spoilt(seen, infos)

    def spoilt(self, seen, infos):
        if self.fault == "exits":
            sys.exit("no window")
        if self.fault == "raises":
            raise OSError("no map")
        if self.fault.startswith("sees None"):
            seen["a"] = None if self.fault == "sees None" else self._with_none(seen["a"])
            return seen, infos
        entries = infos["a"] if self.form == "infos" else seen["a"]
        mask = entries.pop("action_mask")
        if self.fault != "no mask":
            entries["action_mask"] = ["yes"] * 4 if "words" in self.fault else mask[:3]
        return seen, infos

    def _with_none(self, observation):
        entry = next(name for name in observation if name != "action_mask")
        return observation | {entry: np.array([0.5, None], object)}


# Modules with a failing import, and the text of the line.
MODULES = {
    "import nobody_has_this_package": "needs the package 'nobody_has_this_package'",
    "raise OSError('no licence')": "OSError: no licence",
    "import sys\nsys.exit('no display')": "SystemExit, which ends a program: no display",
    "def make(:\n    pass": "SyntaxError",
    "import os\nfrom os import nothing_of_the_kind": "ImportError: cannot import name 'nothing_of_the_kind'",
}
