"""A user's choices outside the program."""

from run_fixtures import shell  # noqa: F401
