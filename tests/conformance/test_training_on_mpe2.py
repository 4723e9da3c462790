"""Training on mpe2 through the PettingZoo adapter is equivalent to training on the batched engine."""

import os

import numpy as np
import pytest
import scipy.stats
from training_runs import train_seeds

pytestmark = pytest.mark.conformance

SEEDS = range(1, 11)
MARGIN = 3.0
SETTINGS = ("stop.env_steps=400000", "evaluation.every=1000", "evaluation.episodes=32", "evaluation.final_episodes=640")


def test_training_on_mpe2_is_equivalent_at_400k_steps(tmp_path):
    """Two one-sided Welch tests at 5 % on the final returns of ten seeds each (Schuirmann 1987)."""
    cores = len(os.sched_getaffinity(0))
    mpe2 = "task.name=pettingzoo:mpe2.simple_spread_v3:parallel_env"
    engine = train_seeds(tmp_path / "engine", SEEDS, "task.name=mpe/simple_spread", *SETTINGS, at_once=cores)
    adapter = train_seeds(tmp_path / "adapter", SEEDS, mpe2, *SETTINGS, at_once=cores)
    returns = [[summary["final_return"]["mean"] for summary in runs] for runs in (engine, adapter)]
    a, b = map(np.array, returns)
    above = scipy.stats.ttest_ind(a + MARGIN, b, equal_var=False, alternative="greater").pvalue
    below = scipy.stats.ttest_ind(a - MARGIN, b, equal_var=False, alternative="less").pvalue
    print(f"engine {returns[0]}\nmpe2 {returns[1]}\np {above} {below}")
    assert max(above, below) < 0.05
