"""What goes wrong between a driver and workers of other machines."""


class DialInError(Exception):
    """Driver and worker do not come together; the message says in one line why, and what to do."""
