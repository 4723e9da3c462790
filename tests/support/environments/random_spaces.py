"""A PettingZoo environment with spaces, masks and names of agents that are drawn at random by a number."""

import types

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

FLOATS, INTEGERS = ("float32", "float64", "float16"), ("int8", "int16", "int32", "int64", "uint8")
NAMES = (["a", "b"], [0, 1], ["0", 1], [np.int64(3), (2, "x")])
STEPS = 4
DONE = []


def shape_of(rng, least=0):
    return tuple(int(n) for n in rng.integers(1, 4, size=rng.integers(least, 4)))


def box(rng, actions=False):
    """Numbers. Some observations are images, whole numbers or without bounds."""
    if not actions and rng.random() < 0.25:
        return spaces.Box(0, 255, (*rng.integers(1, 5, size=2).tolist(), 2)[: rng.integers(2, 4)], np.uint8)
    dtype = np.dtype(str(rng.choice(FLOATS if actions or rng.random() < 0.6 else INTEGERS)))
    shape = shape_of(rng)
    low, width = rng.uniform(0 if dtype.kind == "u" else -5, 5, shape), rng.uniform(1, 6, shape)
    low, high = (low, low + width) if rng.random() < 0.7 else (np.full(shape, 0.0), np.full(shape, 3.0))
    if not actions and dtype.kind == "f" and rng.random() < 0.3:
        low, high = np.full(shape, -np.inf), np.where(rng.random(shape) < 0.5, high, np.inf)
    return spaces.Box(low.astype(dtype), high.astype(dtype), shape, dtype)


def discrete(rng):
    return spaces.Discrete(int(rng.integers(1, 6)), start=int(rng.integers(-4, 6)))


def choices(rng):
    shape = shape_of(rng, 1)[:2]
    dtype = str(rng.choice(["int64", "int32", "int8"]))
    return spaces.MultiDiscrete(rng.integers(1, 4, shape), dtype, start=rng.integers(-3, 9, shape))


def bits(rng):
    shape = shape_of(rng, 1)[:2]
    return spaces.MultiBinary(shape if len(shape) > 1 else shape[0])


def nested(rng, depth):
    """A dictionary, by texts or by numbers, or a tuple."""
    count = int(rng.integers(1, 4))
    parts = [observed(rng, depth - 1) for _ in range(count)]
    kind = rng.integers(3)
    if kind == 2:
        return spaces.Tuple(parts)
    keys = [f"{chr(122 - place)} {place}" for place in range(count)] if kind else list(range(count, 0, -1))
    return spaces.Dict(dict(zip(keys, parts, strict=True)))


def observed(rng, depth=3):
    kinds = [box, box, discrete, choices, bits]
    kind = rng.integers(len(kinds) + (3 if depth else 0))
    return kinds[kind](rng) if kind < len(kinds) else nested(rng, depth)


def acted(rng):
    return (discrete, choices, bits, lambda rng: box(rng, actions=True))[rng.integers(4)](rng)


def sample(space, rng):
    """Return a member of a space. Numbers without bounds are moderate, because float32 holds only these exactly."""
    if isinstance(space, spaces.Dict):
        return {key: sample(part, rng) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(sample(part, rng) for part in space.spaces)
    if isinstance(space, spaces.Discrete):
        return int(space.start + rng.integers(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        return (space.start + rng.integers(space.nvec)).astype(space.dtype)
    if isinstance(space, spaces.MultiBinary):
        return rng.integers(2, size=space.shape).astype(np.int8)
    low = np.maximum(space.low.astype(float), -9)
    high = np.minimum(space.high.astype(float), 255 if space.dtype == np.uint8 else 9)
    if space.dtype.kind == "f":
        drawn = np.asarray(rng.uniform(np.minimum(low, high), high)).astype(space.dtype)
        return np.clip(drawn, space.low, space.high)
    return np.asarray(rng.integers(low, high, endpoint=True)).astype(space.dtype)


class Task(ParallelEnv):
    """Two agents with separate spaces, for `STEPS` steps. DONE holds the actions of all environments."""

    metadata = types.MappingProxyType({"name": "random_spaces_v0", "max_cycles": STEPS})
    render_mode = None

    def __init__(self, number=0):
        rng = np.random.default_rng([38, number])
        self.possible_agents = list(NAMES[rng.integers(len(NAMES))])
        self.seen = {agent: observed(rng) for agent in self.possible_agents}
        self.does = {agent: acted(rng) for agent in self.possible_agents}
        self.masked = rng.random() < 0.4

    def mask_sizes(self, agent):
        """The numbers of actions of each choice. () of continuous ones."""
        space = self.does[agent]
        if isinstance(space, spaces.Box):
            return ()
        if isinstance(space, spaces.Discrete):
            return (int(space.n),)
        counts = space.nvec if isinstance(space, spaces.MultiDiscrete) else np.full(space.shape, 2)
        return tuple(counts.reshape(-1).tolist())

    def observation_space(self, agent):
        if not (self.masked and self.mask_sizes(agent)):
            return self.seen[agent]
        mask = spaces.Box(0, 1, (sum(self.mask_sizes(agent)),), np.int8)
        return spaces.Dict({"observation": self.seen[agent], "action_mask": mask})

    def action_space(self, agent):
        return self.does[agent]

    def shown(self):
        return {agent: self.shown_to(agent) for agent in self.agents}

    def shown_to(self, agent):
        seen, sizes = sample(self.seen[agent], self.rng), self.mask_sizes(agent)
        if not (self.masked and sizes):
            return seen
        masks = [self.rng.integers(2, size=size) for size in sizes]
        for mask in masks:
            mask[self.rng.integers(len(mask))] = 1
        return {"observation": seen, "action_mask": np.concatenate(masks).astype(np.int8)}

    def reset(self, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.agents, self.t = self.possible_agents[:], 0
        return self.shown(), {agent: {} for agent in self.agents}

    def step(self, actions):
        for agent, action in actions.items():
            assert self.does[agent].contains(action), f"{agent!r} does {action!r}, not in {self.does[agent]}"
        DONE.append(actions)
        self.t += 1
        over = self.t >= STEPS
        rewards, ends = dict.fromkeys(self.agents, 0.0), dict.fromkeys(self.agents, False)
        cut, infos, shown = dict.fromkeys(self.agents, over), {agent: {} for agent in self.agents}, self.shown()
        if over:
            self.agents = []
        return shown, rewards, ends, cut, infos
