"""Property tests are not timed: how long an example takes says more about the machine than about the code."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
