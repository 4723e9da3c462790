"""An AWS account on this machine, for tests and for runs that cost nothing."""
