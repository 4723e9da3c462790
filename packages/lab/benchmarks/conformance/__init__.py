"""Every algorithm on the reference tasks, over seeds, compared with its bar: ``python -m benchmarks.conformance``."""
