"""What agents that speak learn, and controls that must not learn it."""
