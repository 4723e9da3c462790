"""The fixtures of runs, for workers of other machines."""

from run_fixtures import *  # noqa: F403
