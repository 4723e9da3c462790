"""Passes of small networks by the kernels of `marless.functions.native`."""
