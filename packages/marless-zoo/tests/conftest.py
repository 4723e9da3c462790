"""The shell of a user."""

from run_fixtures import shell  # noqa: F401
