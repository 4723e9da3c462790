"""Env tasks with hidden roles: agents have equal spaces, and observations do not say an agent's role."""
