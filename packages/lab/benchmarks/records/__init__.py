"""Records behind the numbers of the pages."""
