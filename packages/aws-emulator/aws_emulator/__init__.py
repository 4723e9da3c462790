"""An AWS account emulated on this machine, for tests and for runs free of charge."""
