"""JaxMARL's battles."""
