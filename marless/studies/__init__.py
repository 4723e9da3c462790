"""Studies: many runs over seeds and settings, on one pool of workers."""
