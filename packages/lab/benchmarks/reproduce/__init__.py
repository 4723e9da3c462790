"""Measures the numbers of README again, from nothing, and compares them with the published intervals."""
