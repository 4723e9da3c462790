"""Agents that speak: tasks whose agents write tokens, and language models that learn them."""
