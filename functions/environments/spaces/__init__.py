"""Spaces of agents: described in JSON, and encoded and decoded between environments and networks.

`observations`, `actions` and `agent` need only numpy and import nothing else of MARLess: ``marless export`` writes them
next to the programs that play policies.
"""
