"""What a user decides outside the program."""

from run_fixtures import shell  # noqa: F401
