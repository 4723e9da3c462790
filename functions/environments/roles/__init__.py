"""Env tasks whose agents have hidden roles: equal spaces, and nothing in the observation says who has to do what."""
