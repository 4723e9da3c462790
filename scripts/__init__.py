"""Programs that make runs besides the product's commands, from the repository's root as ``python -m
scripts.<name>``."""
