"""Three environments from imagination. No default of a run was chosen on them."""

ENTRY_POINTS = """
imagined/vault = benchmarks.imagined.vault:make
imagined/ring_road = benchmarks.imagined.ring_road:make
imagined/raft = benchmarks.imagined.raft:make
"""
