"""What make runs beside the product's own commands; run from the repository's root as ``python -m scripts.<name>``."""
