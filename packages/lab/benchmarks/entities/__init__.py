"""Learning with sorted entities and set networks, compared with the single-process baseline."""
