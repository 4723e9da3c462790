"""Games of other packages, in which players take turns, as language tasks."""
