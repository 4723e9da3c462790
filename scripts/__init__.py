"""Programs that make runs beside the product's commands, from the repository's root as ``python -m scripts.<name>``."""
