"""Arms against one another: rules of sharing, scaling and placement crossed with seeds, run side by side, compared."""
