"""The fixtures of runs, and an emulated account."""

from principals import operator
from run_fixtures import *  # noqa: F403

__all__ = ["operator"]
