"""Errors about a language model that the user named."""


class UnusableBase(Exception):
    """A file or folder is no model that can be trained here. The message gives the place, the reason and the remedy."""


class Unwritable(ValueError):
    """A vocabulary cannot write a task's text. The message quotes it."""
