"""Pages generated from registries, configuration classes and docstrings, one module each."""
