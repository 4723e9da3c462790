"""Runs that have come to an end, made without training: folders with the files that a comparison reads."""

import msgspec
from ablated_runs import empty_line

from coordinator.config import dump
from coordinator.config.schema import load
from coordinator.reports.evaluations import Evaluation, document

_PARTS = dict.fromkeys(("actor", "learner", "evaluator", "storage", "requests"), 0.0)


def a_run(path, seed=1, returns=(1.0, 2.0), absolute=3.0, settings=(), status="finished", dollars=0.01, every=100):
    """A run with an evaluation of two episodes every `every` steps, each of which takes a second and so many dollars.

    The episodes' returns are one below and one above those of `returns`. No `absolute`: it was stopped before.
    """
    path.mkdir(parents=True)
    config = load(None, [f"seed={seed}", "task.name=toy/signal", *settings])
    steps = [every * (1 + index) for index in range(len(returns))]
    evaluations = [
        Evaluation(step_count=at, returns=(mean - 1, mean + 1)) for at, mean in zip(steps, returns, strict=True)
    ]
    best = [] if absolute is None else [absolute]
    lines = [
        empty_line(round=1 + index, env_steps=at, seconds=1.0 * (1 + index), dollars=dollars * (1 + index))
        for index, at in enumerate(steps)
    ]
    summary = {
        **dict.fromkeys(("commit", "start_up_seconds", "final_return", "absolute_return", "weights_sha256")),
        **{"run": path.name, "seed": seed, "status": status, "reason": "", "rounds": len(steps)},
        **{"env_steps": steps[-1], "wall_seconds": 1.0, "train_seconds": 1.0 * len(steps), "peak_mb": {}},
        **{"env_steps_per_second": 1.0, "dollars": {"total": dollars * len(steps), **_PARTS}},
        "machine": {"cores": 1, "platform": "", "python": ""},
    }
    (path / "plan.json").write_text("{}")
    (path / "config.toml").write_text(dump.document(config))
    (path / "metrics.jsonl").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    layout = document(config.task, config.algorithm.name, seed, evaluations, best)
    (path / "evaluations.json").write_bytes(msgspec.json.encode(layout))
    (path / "summary.json").write_bytes(msgspec.json.encode(summary))
