"""Upkeep of a deployment in the cloud, for its administrators. See `marless cloud prune`."""
