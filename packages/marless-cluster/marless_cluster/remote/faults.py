"""Faults between a driver and workers of other machines."""


class DialInError(Exception):
    """Driver and worker do not come together. The message gives the reason and the remedy in one line."""
