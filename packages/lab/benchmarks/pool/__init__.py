"""Many runs on one pool, against one after the other, static halves, a process for each, and a slot for each agent."""
