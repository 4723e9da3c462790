"""Agents that speak: tasks for agents that write tokens, and language models that learn them."""
