"""Every algorithm on the reference tasks, over seeds, beside the bars: ``python -m benchmarks.conformance``."""
