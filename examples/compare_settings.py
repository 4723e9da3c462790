"""Two settings over seeds, trained as a study: the difference of their returns with its bootstrap interval."""

import marless


def main(rounds: int = 60, seeds: range = range(1, 6)) -> None:
    """Trains every setting with every seed and compares the returns."""
    study = marless.study(
        {
            "seeds": list(seeds),
            "base": {"stop": {"rounds": rounds}},
            "vary": {"sharing": {"rule": ["none", "all"]}},
        },
        out="studies/sharing",
        quiet=True,
    )
    for run in study.runs:
        print(f"{run.name:12} {run.score:7.1f}")
    separate, one = marless.compare(study.folder).comparison.equal
    difference = one.against.difference
    low, high = difference.ci95
    print(f"{one.arm} minus {separate.arm}: {difference.value:.1f} (95 % interval {low:.1f} to {high:.1f})")
    print(f"what can be told of the returns: {one.against.verdict}")


if __name__ == "__main__":
    main()
