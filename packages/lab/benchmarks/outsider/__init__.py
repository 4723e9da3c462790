"""Three environments that their author brings along. The author did not read how the program chooses defaults."""

ENTRY_POINTS = """
outsider/locks = benchmarks.outsider.locks:make
outsider/buckets = benchmarks.outsider.buckets:make
outsider/kettle = benchmarks.outsider.kettle:make
"""
