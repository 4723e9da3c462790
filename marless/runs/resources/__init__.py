"""What environments ask in this process, outside of a run."""
