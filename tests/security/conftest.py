"""The emulated account of principals that deploy and train."""

from principals import operator

__all__ = ["operator"]
