"""Measurements of the system and of baselines. Not part of the package."""
