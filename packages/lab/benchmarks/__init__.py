"""Measurements of the system and of baselines; not part of the package."""
