"""Scripted players: rules written by hand that play a side of a game, in place of policies."""
