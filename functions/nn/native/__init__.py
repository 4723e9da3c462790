"""Kernels in C for the passes of small networks, whose bytes are the same on every machine."""
