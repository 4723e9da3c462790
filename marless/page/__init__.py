"""One page in HTML about a run or a comparison of runs, which needs nothing but the file itself."""
