"""Environments that show masks of actions in many ways: `game(FORM)`, and `turns(FORM)` of an `AECEnv`. One action in
four is legal. It is paid 1, any other one costs 100. Episodes take five steps."""

import types
from functools import partial

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv

from marless.functions.environments.base import EnvTask

BOX, MASK = spaces.Box(-1, 1, (2,), np.float32), spaces.Box(0, 1, (4,), np.int8)
STEPS = 5
PLACES = ("pair", "obs", "third", "infos", "not in the space", "mask alone")
SEEN = {
    "pair": lambda box, mask: {"observation": box, "action_mask": mask},
    "obs": lambda box, mask: {"obs": box, "action_mask": mask},
    "third": lambda box, mask: {"goal": box, "action_mask": mask, "observation": box},
    "not in the space": lambda box, mask: {"obs": box, "action_mask": mask},
    "mask alone": lambda box, mask: {"action_mask": mask},
    "no mask": lambda box, mask: {"observation": box, "action_mask": mask},
    "nested": lambda box, mask: {"inner": {"action_mask": mask, "observation": box}},
    "another name": lambda box, mask: {"obs": box, "legal_moves": mask},
}
# The same mask in other kinds of numbers, or damaged.
VALUES = {
    "bools": lambda mask: mask.astype(bool),
    "floats": lambda mask: mask.astype(float),
    "int64": lambda mask: mask.astype(np.int64),
    "list": lambda mask: mask.tolist(),
    "longer": lambda mask: np.append(mask, 0),
    "shorter": lambda mask: mask[:3],
    "nothing legal": lambda mask: mask * 0,
    "logarithms": lambda mask: np.where(mask, 0, -1e9),
    "words": lambda mask: ["yes" if legal else "no" for legal in mask],
}


def space_of(form):
    parts = SEEN.get(form, lambda box, mask: box)(BOX, MASK)
    if form == "not in the space":
        return spaces.Dict({"obs": BOX})
    if form == "nested":
        return spaces.Dict({"inner": spaces.Dict(parts["inner"])})
    return spaces.Dict(parts) if isinstance(parts, dict) else parts


class Dealer:
    def __init__(self, form, does="choice"):
        self.form, self.does = form, does
        self.value = VALUES.get(form, lambda mask: mask)
        # Infos hold masks of damaged values.
        self.told = form in ("infos", "of numbers", *VALUES) or form.endswith("infos")

    def deal(self, rng):
        self.box = rng.uniform(-1, 1, 2).astype(np.float32)
        self.legal = (
            (int(rng.integers(2)), 2 + int(rng.integers(2))) if self.does == "choices" else (int(rng.integers(4)),)
        )

    def mask(self):
        return np.isin(np.arange(4), self.legal).astype(np.int8)

    def seen(self, late=False):
        form = self.form
        if form == "late in the observation" or form == "gone from the observation":
            form = "obs" if late == form.startswith("late") else "none"
            return SEEN["obs"](self.box, self.mask()) if form == "obs" else {"obs": self.box}
        return SEEN[form](self.box, self.mask()) if form in SEEN else self.box

    def info(self, late=False):
        if self.form == "another name in infos":
            return {"legal_moves": self.mask()}
        if self.form == "None after a mask":
            return {"action_mask": None if late else self.mask()}
        shown = {"late in infos": late, "gone from infos": not late}.get(self.form, self.told)
        return {"action_mask": self.value(self.mask())} if shown else {}

    def paid(self, action):
        chosen = (int(action[0]), 2 + int(action[1])) if self.does == "choices" else (int(np.sum(action)),)
        return 1.0 if chosen == self.legal else -100.0


class Game(ParallelEnv):
    metadata = types.MappingProxyType({"name": "masked_game_v0", "max_cycles": STEPS})
    render_mode = None

    def __init__(self, form="pair", does="choice"):
        self.possible_agents = ["a", "b"]
        self.dealers = {agent: Dealer(form, does) for agent in self.possible_agents}
        observed = spaces.Dict({"obs": BOX}) if form == "late in the observation" else space_of(form)
        self.space = space_of("obs") if form == "gone from the observation" else observed
        choices = {"choice": spaces.Discrete(4), "choices": spaces.MultiDiscrete([2, 2])}
        self.acts = spaces.Box(-1, 1, (4,), np.float32) if form == "of numbers" else choices[does]

    def observation_space(self, agent):
        return self.space

    def action_space(self, agent):
        return self.acts

    def shown(self):
        late = self.t > 1
        seen = {agent: dealer.seen(late) for agent, dealer in self.dealers.items()}
        return seen, {agent: dealer.info(late) for agent, dealer in self.dealers.items()}

    def deal(self):
        for dealer in self.dealers.values():
            dealer.deal(self.rng)

    def reset(self, seed=None, options=None):
        self.rng, self.t, self.agents = np.random.default_rng(seed), 0, self.possible_agents[:]
        self.deal()
        return self.shown()

    def step(self, actions):
        rewards = {agent: dealer.paid(actions[agent]) for agent, dealer in self.dealers.items()}
        self.t += 1
        self.deal()
        seen, infos = self.shown()
        cut = dict.fromkeys(self.agents, self.t == STEPS)
        ends = dict.fromkeys(self.agents, False)
        if self.t == STEPS:
            self.agents = []
        return seen, rewards, ends, cut, infos


class Turns(AECEnv):
    """The players take turns. `infos` holds the mask of the present player."""

    metadata = types.MappingProxyType({"name": "masked_turns_v0", "max_cycles": STEPS})
    render_mode = None

    def __init__(self, form="pair"):
        self.possible_agents, self.form, self.space = ["a", "b"], form, space_of(form)

    def observation_space(self, agent):
        return self.space

    def action_space(self, agent):
        return spaces.Discrete(4)

    def reset(self, seed=None, options=None):
        self.rng, self.t, self.agents = np.random.default_rng(seed), 0, self.possible_agents[:]
        self.dealer = Dealer(self.form)
        self._cumulative_rewards, self.terminations = dict.fromkeys(self.agents, 0.0), dict.fromkeys(self.agents, False)
        self.pay({})

    def pay(self, rewards):
        self.dealer.deal(self.rng)
        self.rewards = dict.fromkeys(self.agents, 0.0) | rewards
        self.truncations = dict.fromkeys(self.agents, self.t == 2 * STEPS)
        self.agent_selection = self.agents[self.t % 2]
        self.infos = {agent: self.dealer.info() if agent == self.agent_selection else {} for agent in self.agents}

    def observe(self, agent):
        if self.form == "None":
            return None if agent != self.agent_selection else self.dealer.box
        if self.form == "no mask":
            return self.dealer.seen() if self.t < 2 else {"observation": self.dealer.box}
        return self.dealer.seen()

    def step(self, action):
        if self.truncations[self.agent_selection]:
            self._was_dead_step(action)
            return
        self.t += 1
        self.pay({self.agent_selection: self.dealer.paid(action)})


FORMS = {form: partial(Game, form) for form in PLACES}
TURN_FORMS = ("pair", "obs", "third", "infos", "not in the space")


def game(form, **options):
    return EnvTask(name=f"pettingzoo:{__name__}:Game", options={"form": form} | options)


def turns(form):
    return EnvTask(name=f"pettingzoo:{__name__}:Turns", options={"form": form})
