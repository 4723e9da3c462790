"""Two settings over seeds: the difference of their final returns, seed by seed, with a bootstrap interval."""

import numpy as np

import marless

SETTINGS = {"separate networks": {"rule": "none"}, "one network": {"rule": "all"}}


def main(rounds: int = 60, seeds: range = range(1, 6)) -> None:
    """Trains every setting with every seed and compares the returns."""
    returns = {name: [] for name in SETTINGS}
    for seed in seeds:
        for name, sharing in SETTINGS.items():
            run = marless.train(seed=seed, sharing=sharing, stop={"rounds": rounds}, quiet=True)
            returns[name].append(run.summary.final_return.mean)
            print(f"seed {seed}  {name:18} {returns[name][-1]:7.1f}")
    separate, one = (np.array(values) for values in returns.values())
    difference, rng = one - separate, np.random.default_rng(0)
    resampled = rng.choice(difference, (10_000, len(difference))).mean(axis=1)
    low, high = np.quantile(resampled, (0.025, 0.975))
    print(f"one network minus separate ones: {difference.mean():.1f} (95 % interval {low:.1f} to {high:.1f})")


if __name__ == "__main__":
    main()
