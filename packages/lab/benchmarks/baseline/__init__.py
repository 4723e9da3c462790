"""The single-process baseline in two forms: torch, and this project's own actor and learner without functions."""
