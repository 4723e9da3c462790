"""A coarse large-eddy simulation of turbulent channel flow. Its agents adjust the stress at the walls."""
