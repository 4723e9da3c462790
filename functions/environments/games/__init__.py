"""Environments with compiled rules, see `marless.functions.native.games`."""
