"""Simulates a missing matplotlib."""

raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
