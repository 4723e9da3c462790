"""One page in HTML about a run or a comparison of runs, in a single file."""
