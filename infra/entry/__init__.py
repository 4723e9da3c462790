"""Entry points of the functions on Lambda."""
