"""Manage runs after training: their disk space, their removal, and archives of them."""
