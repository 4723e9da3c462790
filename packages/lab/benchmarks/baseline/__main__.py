"""``python -m benchmarks.baseline RECORD``: see `measure`."""

from benchmarks.baseline.measure import main

if __name__ == "__main__":
    main()
