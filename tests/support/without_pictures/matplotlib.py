"""Stands for a matplotlib that is not installed."""

raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
