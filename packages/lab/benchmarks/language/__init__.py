"""The success and the speed of agents that speak, and controls that must not learn."""
