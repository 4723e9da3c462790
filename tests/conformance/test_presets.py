"""Presets of published cells, trained for a part of their steps: they learn.

Random play returns -79, standing still -72.4. The bars are below the return that a first run with seed 1 had passed by
then.
"""

from pathlib import Path

import pytest
from training_runs import train

pytestmark = pytest.mark.conformance

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("preset", "steps", "bar"), [("epymarl_mappo_mpe", 2_500_000, -55), ("epymarl_qmix_mpe", 400_000, -65)]
)
def test_a_preset_learns(tmp_path, preset, steps, bar):
    summary = train(tmp_path, str(EXAMPLES / f"{preset}.toml"), f"stop.env_steps={steps}", "seed=100")
    assert summary["final_return"]["mean"] >= bar, summary["final_return"]
