"""Kernels in C, whose bytes are the same on every machine: sources, compiled libraries, and their calls."""
