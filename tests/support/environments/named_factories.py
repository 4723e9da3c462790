"""Ways to name a factory, `HONEST`, and callables of the same module that make no environment, `OTHERS`."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path
from subprocess import check_output  # noqa: F401 — named by OTHERS
from types import ModuleType
from typing import TYPE_CHECKING

import mpe2
import named_games
import numpy as np
from mpe2 import simple_spread_v3
from named_games import Game

if TYPE_CHECKING:
    from pettingzoo import ParallelEnv

MAPS = {"small": Game}


def calls(**options):
    return simple_spread_v3.parallel_env(**options)


def calls_a_part_of_a_package(**options):
    return mpe2.simple_spread_v3.parallel_env(**options)


def calls_another_function(size=2):
    return named_games.build(size)


def imports_itself(size=2):
    from named_games import Game as Imported

    return Imported(size)


def looks_up(name="small"):
    return MAPS[name]()


def says(name="named_games") -> ParallelEnv:
    return __import__(name).Game()


def calls_a_builder():
    return named_games.Builder().build()


def decorated(function):
    def wrapper(*given, **named):
        return function(*given, **named)

    return wrapper


@decorated
def is_decorated(size=2):
    return Game(size)


@functools.lru_cache
def is_cached(size=2):
    return Game(size)


class Maker:
    def __call__(self, size=2):
        return Game(size)


class Outer:
    def __init__(self, size=2):
        self.inner = Game(size)

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def reset(self, seed=None, options=None):
        return self.inner.reset(seed, options)


class _Lazy(ModuleType):
    """As packages that refuse names of earlier versions."""

    def __getattr__(self, name):
        raise ImportError(f"cannot import name {name!r}")


lazy = _Lazy("lazy")
lazy.build = named_games.build
endless = decorated(named_games.build)
endless.__wrapped__ = endless


def calls_a_module_that_refuses_names(size=2):
    return lazy.build(size)


def calls_what_wraps_itself(size=2):
    return Game(size) if endless else None


is_a_lambda = lambda **options: simple_spread_v3.parallel_env(**options)  # noqa: E731
is_partial = functools.partial(simple_spread_v3.parallel_env, N=2)
is_imported = simple_spread_v3.parallel_env
is_a_class = Game
is_an_object = Maker()
is_a_method = named_games.Builder.make

HONEST = (
    "calls",
    "calls_a_part_of_a_package",
    "calls_another_function",
    "imports_itself",
    "looks_up",
    "says",
    "calls_a_builder",
    "calls_a_module_that_refuses_names",
    "calls_what_wraps_itself",
    "is_decorated",
    "is_cached",
    "is_a_lambda",
    "is_partial",
    "is_imported",
    "is_a_class",
    "is_an_object",
    "is_a_method",
    "Outer",
)


def runs(args, shell=True):
    return subprocess.check_output(args, shell=shell)


def removes(path):
    Path(path).unlink()


def returns_a_number(path) -> int:
    return os.system(path)


runs_partially = functools.partial(subprocess.check_output, shell=True)
runs_in_a_lambda = lambda args, shell=True: subprocess.check_output(args, shell=shell)  # noqa: E731
loads = np.load


class Process(subprocess.Popen):
    pass


class Runner:
    def __call__(self, args, shell=True):
        return subprocess.check_output(args, shell=shell)


is_a_runner = Runner()

OTHERS = (
    "runs",
    "removes",
    "returns_a_number",
    "runs_partially",
    "runs_in_a_lambda",
    "loads",
    "Process",
    "is_a_runner",
    "check_output",
)
