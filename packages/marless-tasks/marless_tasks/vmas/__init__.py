"""The tasks ``vmas/<scenario>``."""
