"""Types for editors and mypy, generated from the code."""
