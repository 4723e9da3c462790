"""A scaling rule of your own: a random number of rollouts in every round, whatever was learned. A rule that reads
nothing of a run is the control of every rule that does."""

import marless


def chance(history, bounds, rng):
    """Between the least and the most; `rng` belongs to the round, so a resumed run draws the same."""
    return int(rng.integers(bounds.least, bounds.most + 1))


def main(rounds: int = 20) -> None:
    run = marless.train(scaling={"rule": chance, "rollouts": 6, "min_rollouts": 1}, rounds=rounds)
    print("rollouts by round:", [row["rollouts"] for row in run.metrics()])


if __name__ == "__main__":
    main()
