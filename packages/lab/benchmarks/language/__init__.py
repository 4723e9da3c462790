"""What agents that speak learn, how fast, and controls that must not learn it."""
