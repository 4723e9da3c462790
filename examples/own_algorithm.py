"""An algorithm of your own: PPO whose critic sees its agent's observation and the mean of all observations, the idea of
mean-field methods (Yang et al., "Mean Field Multi-Agent Reinforcement Learning", ICML 2018)."""

import numpy as np

import marless
from marless.algorithms import (
    PPO_PARTS,
    PPO_STAGES,
    PPO_SUMMARIES,
    AlgorithmSpec,
    CriticView,
    Merging,
    Ppo,
    PpoConfig,
    check,
)


class MeanFieldConfig(PpoConfig, frozen=True, kw_only=True, tag_field="name", tag="mean_field_ppo"):
    """All settings of PPO."""


def width(spec, agent):
    """Its own observation and the mean of its class."""
    return 2 * spec.classes[spec.class_of[agent]].observation_size


def inputs(batch, agent):
    """``[T, E, width]``, and ``[K, width]`` after each cut."""
    kind, _ = batch.place(agent)
    both = (batch.observations, batch.cut_observations)  # of the class: [n, T, E, F] and [n, K, F]
    seen, after = (np.concatenate([batch.of(x, agent), x[kind].mean(axis=0)], axis=-1) for x in both)
    return seen, after


VIEW = CriticView(width, inputs)
PPO = Ppo(VIEW)
STAGES, SUMMARIES, initialise, merge = PPO.stages, PPO_SUMMARIES, PPO.initialise, Merging(VIEW).merge
SPEC = AlgorithmSpec(
    "mean_field_ppo", MeanFieldConfig, PPO_STAGES, PPO_PARTS, __name__, tuple(PPO_SUMMARIES), part_bytes=PPO.part_bytes
)


def main(rounds: int = 60) -> None:
    check(SPEC, {"hidden": [8], "epochs": 1, "num_minibatches": 1})
    run = marless.train(algorithm={"name": "mean_field_ppo"}, stop={"rounds": rounds})
    print(f"{run.summary.final_return.mean:.1f} after {run.summary.env_steps:,} steps")


if __name__ == "__main__":
    main()
