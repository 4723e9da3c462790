"""Text of others before it leaves the program: secrets become their names, and what a terminal would obey is shown."""
