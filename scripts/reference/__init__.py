"""Pages of docs/reference that are made of registries, configuration classes and docstrings, one module each."""
