"""Trained teams at play, as pictures."""
