"""Common parts of measurements that compare ways to train: their runs, their records, and their machines."""
