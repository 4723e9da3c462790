"""Foreign text before it leaves the program: secrets become their names, and control characters become visible."""
