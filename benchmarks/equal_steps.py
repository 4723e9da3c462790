"""Compares the competing sides of two arms' runs after equally many environment steps.

    python -m benchmarks.equal_steps BASELINE_DIR ARM OWN_DIR ARM --reference RUN [--seeds 10]

Prints a markdown table: return per agent of each side against frozen random and frozen reference opponents, the paired
difference with its 95 % interval (Student's t), and the smallest allowed difference: -10 % of the baseline's gain over
random play.
"""

import argparse
from pathlib import Path

import numpy as np

from coordinator.ablation.arms import arms_by_name
from coordinator.reports import load_policy, statistics
from coordinator.reports.crossplay import play, sides
from coordinator.reports.policy import TeamPolicy

EPISODES, SHARE = 3200, 0.1


def main() -> None:
    """Plays the episodes and prints the table."""
    options = arguments().parse_args()
    reference, seeds = load_policy(options.reference), range(1, options.seeds + 1)
    teams = [
        [load_policy(folder / "runs" / f"{arms_by_name([arm])[0].slug}-s{seed}") for seed in seeds]
        for folder, arm in ((options.baseline, options.baseline_arm), (options.own, options.own_arm))
    ]
    print("| side | against | random play | baseline | own | difference | allowed |\n|---|---|---|---|---|---|---|")
    for side in sides(reference.task):
        for name, opponent in (("random", None), ("reference", reference)):
            print(row(side, name, opponent, teams, reference))


def row(side: str, name: str, opponent: TeamPolicy | None, teams: list[list[TeamPolicy]], like: TeamPolicy) -> str:
    """One line of the table."""
    returns = [
        np.array([play(like.task, team, side, opponent, EPISODES, seed).mean() for seed, team in enumerate(arm, 1)])
        for arm in teams
    ]
    chance = float(play(like.task, None, side, opponent, EPISODES, 1).mean())
    low, high = statistics.ci95(returns[1] - returns[0])
    baseline, own = (float(values.mean()) for values in returns)
    difference = f"{own - baseline:+.2f} ({low:+.2f} to {high:+.2f})"
    cells = (f"{chance:.2f}", f"{baseline:.2f}", f"{own:.2f}", difference, f"{-SHARE * (baseline - chance):+.2f}")
    return f"| {side} | {name} | {' | '.join(cells)} |"


def arguments() -> argparse.ArgumentParser:
    """The command line's parser."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("baseline", type=Path)
    parser.add_argument("baseline_arm")
    parser.add_argument("own", type=Path)
    parser.add_argument("own_arm")
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    return parser


if __name__ == "__main__":
    main()
