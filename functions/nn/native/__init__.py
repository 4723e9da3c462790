"""Passes of small networks by the kernels of `functions.native`."""
