"""Write an algorithm: PPO with a critic that sees its agent's observation and the mean of all observations. This is the
idea of mean-field methods (Yang et al., "Mean Field Multi-Agent Reinforcement Learning", ICML 2018)."""

import numpy as np

import marless
from marless.algorithms import CriticView, check, ppo_variant


def width(spec, agent):
    """Its own observation and the mean of its class."""
    return 2 * spec.classes[spec.class_of[agent]].observation_size


def inputs(batch, agent):
    """``[T, E, width]``, and ``[K, width]`` after each cut."""
    kind, _ = batch.place(agent)
    both = (batch.observations, batch.cut_observations)  # of the class: [n, T, E, F] and [n, K, F]
    seen, after = (np.concatenate([batch.of(x, agent), x[kind].mean(axis=0)], axis=-1) for x in both)
    return seen, after


@marless.algorithm
def mean_field_ppo():
    """Return PPO with this critic."""
    return ppo_variant(CriticView(width, inputs))


def main(rounds: int = 60) -> None:
    check(mean_field_ppo, {"hidden": [8], "epochs": 1, "num_minibatches": 1})
    run = marless.train("mpe/simple_spread", "mean_field_ppo", rounds=rounds)
    print(f"{run.summary.final_return.mean:.1f} after {run.summary.env_steps:,} steps")


if __name__ == "__main__":
    main()
