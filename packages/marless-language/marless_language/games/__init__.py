"""Games of other packages, with players that take turns, as language tasks."""
