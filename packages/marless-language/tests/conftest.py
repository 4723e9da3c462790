"""The fixtures of runs, for agents that speak."""

from run_fixtures import *  # noqa: F403
