"""The gain of a resource that is shared action by action over reserved slots: real runs, and a prediction."""
