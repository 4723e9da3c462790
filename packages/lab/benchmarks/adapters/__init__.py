"""Adapters of environments against plain loops over the packages that they adapt."""
