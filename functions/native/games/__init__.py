"""Games in C, and the fields of their structures."""
