"""Trained teams, each with the command of its training, the hashes of its weights and its return: `marless play`."""
