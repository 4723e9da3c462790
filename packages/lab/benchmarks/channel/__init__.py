"""Errors of wall models in the task `channel/wall`."""
