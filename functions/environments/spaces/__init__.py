"""Spaces of agents: described in JSON, and encoded and decoded between environments and networks.

`observations`, `actions` and `agent` need numpy alone and import nothing else of MARLess: ``marless export`` writes
them beside the programs that play policies.
"""
