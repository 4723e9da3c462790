"""Resources for environments in this process, outside of a run."""
