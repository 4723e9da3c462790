"""Language tasks."""
