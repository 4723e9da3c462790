"""PettingZoo environments that say how long an episode is elsewhere than in `max_cycles`, and one that counts turns."""

from types import SimpleNamespace

from pettingzoo.classic import tictactoe_v3
from relays import Relay


class Unnamed(Relay):
    """A relay of five steps without `max_cycles`."""

    def __init__(self):
        super().__init__(max_cycles=0)


class Attribute(Unnamed):
    episode_limit = 21


class Hidden(Unnamed):
    _max_steps = 22


class Specified(Unnamed):
    """Like an environment that Gymnasium registered. Its attribute is not as sure as that."""

    spec = SimpleNamespace(max_episode_steps=23)
    time_limit = 99


class Configured(Unnamed):
    config = SimpleNamespace(max_ticks=24)


class Tabled(Unnamed):
    _config = {"horizon": 25}  # noqa: RUF012 — a class of its own per environment is the point


class Stingy(Unnamed):
    """Answers some names with another error than Python's."""

    step_limit = 26

    def __getattr__(self, name):
        raise RuntimeError(name) if name == "max_steps" else AttributeError(name)


class Unlimited(Unnamed):
    """Only whole numbers from 1 count."""

    max_steps, max_episode_steps, time_limit = None, True, 2.5
    timestep_limit = 0


class Signed(Unnamed):
    def __init__(self, max_steps=27):
        super().__init__()


def make(max_turns=28) -> Relay:
    return Unnamed()


def needs(size, rules, *, colour="red") -> Relay:
    return Unnamed()


def game(max_turns=9) -> tictactoe_v3.raw_env:
    return tictactoe_v3.env()
