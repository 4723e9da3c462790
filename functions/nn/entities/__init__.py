"""Networks that see a set of entities."""
