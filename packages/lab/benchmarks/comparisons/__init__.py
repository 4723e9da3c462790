"""What measurements share that compare ways to train: their runs, their records, and where they were made."""
