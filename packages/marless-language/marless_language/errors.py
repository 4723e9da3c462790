"""What is wrong with a language model that somebody named."""


class UnusableBase(Exception):
    """A file or folder is no model that can be trained here; the message says where, why, and what to do."""


class Unwritable(ValueError):
    """A vocabulary cannot write what a task says; the message says what."""
