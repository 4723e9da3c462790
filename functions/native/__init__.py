"""Kernels in C with the same bytes on every machine: sources, compiled libraries, and their calls."""
