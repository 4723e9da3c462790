"""Code of others that a resource imports."""
