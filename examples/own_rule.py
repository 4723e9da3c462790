"""Write a scaling rule: a random number of rollouts in every round, independent of learning. A rule that reads nothing
of a run is the control of every rule that does."""

import marless


def chance(history, bounds, rng):
    """Draw between the least and the most. `rng` belongs to the round, so a resumed run draws the same."""
    return int(rng.integers(bounds.least, bounds.most + 1))


def main(rounds: int = 20) -> None:
    scaling = {"rule": chance, "min_rollouts": 1}
    run = marless.train(scaling=scaling, actors={"rollouts": 6}, rounds=rounds)
    print("rollouts by round:", [row["rollouts"] for row in run.metrics()])


if __name__ == "__main__":
    main()
