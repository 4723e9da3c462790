"""Environments with faults that a run must survive: `pettingzoo:bad_environments:<class>`. Two agents, five steps."""

import os
import shutil
import time
from pathlib import Path

import numpy as np
from faulty_environments import Sound
from gymnasium.spaces import Box

from marless.functions import codec
from marless.functions.messages.exchange import TaskHeader


class Continuous(Sound):
    def action_space(self, agent):
        return Box(-1.0, 1.0, (2,), np.float32)


class Raises(Sound):
    def reward(self, action):
        raise RuntimeError("the simulator lost its map")


class Hangs(Sound):
    def reward(self, action):
        time.sleep(3600)


class Exits(Sound):
    def reward(self, action):
        os._exit(3)


class NotANumber(Sound):
    def reward(self, action):
        return float("nan")


class Forges(Sound):
    """Writes an object under the key of the first trajectory of the run `forged`."""

    def reward(self, action):
        path = Path("runs/forged/objects/rounds/000000/sample/00000-00000.trajectory.safetensors")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(codec.encode({}, TaskHeader(task="somebody/000000/else")))
        return 0.0


class Blocks(Sound):
    """Puts a file where the run `blocked` needs a folder for its first trajectory."""

    def reward(self, action):
        path = Path("runs/blocked/objects/rounds/000000/sample")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
        return 0.0


class Loses(Sound):
    """Removes the stored objects of the run `lost`, like a user who tidies up."""

    def reward(self, action):
        shutil.rmtree("runs/lost/objects", ignore_errors=True)
        return 0.0
