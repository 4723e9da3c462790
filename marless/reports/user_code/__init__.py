"""The code of users that computes: where Python finds it, and hashes of its files."""
