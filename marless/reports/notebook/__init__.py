"""Objects that a notebook shows when a cell ends with them."""
