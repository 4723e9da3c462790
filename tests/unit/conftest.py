"""Property tests are not timed: an example's time depends more on the machine than on the code."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
