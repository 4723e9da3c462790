"""Fake finished runs for ablations: folders with the files that are read, and `FinishedRun`s without files."""

import msgspec
import numpy as np

from marless.comparison.finished_run import CostPoint, FinishedRun, Round
from marless.coordinator.core.state import Evaluated, RoundLine


def a_line(number, **changed):
    """A round of 100 steps, one second and a cent."""
    fields = {
        "round": number,
        "env_steps": 100 * number,
        "seconds": 1.0 * number,
        "dollars": 0.01 * number,
        "rollouts": 4,
        "learners": 6,
        "groups": 3,
        "invocations": 10,
        "episodes": 4,
        "return_mean": -50.0,
        "return_sd": 1.0,
        "agent_returns": (-20.0, -30.0),
        "env_metrics": {},
        "metrics": {},
        "team": (0, 1, 2),
    }
    return RoundLine(**(fields | changed))


def evaluated(round_, *returns):
    return Evaluated(round=round_, env_steps=100 * round_, returns=returns)


def a_folder(path, lines, final=-40.0, status="finished", code="abc"):
    path.mkdir(parents=True)
    (path / "plan.json").write_text(f'{{"run": "{path.name}", "code_sha256": "{code}"}}')
    (path / "metrics.jsonl").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    parts = {"actor": 0.001, "learner": 0.002, "evaluator": 0.0005, "requests": 0.0001, "storage": 0.03}
    summary = {
        "run": path.name,
        "commit": None,
        "seed": 1,
        "status": status,
        "reason": "",
        "rounds": lines[-1].round,
        "env_steps": lines[-1].env_steps,
        "wall_seconds": 1.0,
        "train_seconds": 1.0,
        "env_steps_per_second": 1.0,
        "start_up_seconds": None,
        "absolute_return": None,
        "peak_mb": {},
        "weights_sha256": None,
        "machine": {"cores": 1, "platform": "", "python": ""},
        "final_return": {"mean": final, "iqm": final, "ci95": [final - 1, final + 1], "episodes": 3200},
        "dollars": {"total": sum(parts.values()), **parts},
    }
    (path / "summary.json").write_bytes(msgspec.json.encode(summary))
    return path


def a_result(arm="baseline", seed=1, **changed):
    """A run of 1,000 steps in 10 s for ten cents, from -80 to -40 in a straight line."""
    fields = {
        "arm": arm,
        "seed": seed,
        "rounds": 10,
        "env_steps": 1000,
        "seconds": 10.0,
        "dollars": 0.1,
        "actor": 0.01,
        "learner": 0.02,
        "evaluator": 0.001,
        "requests": 0.002,
        "storage": 0.07,
        "rollouts": 4.0,
        "learners": 6.0,
        "sharing": 0.0,
        "flips": 0,
        "rejected": 0,
        "final_return": -40.0,
        "code": "abc",
        "curve": a_curve(1000, 10.0, 0.1, -80.0, -40.0),
        "history": (Round(rollouts=4, learners=6, team=(0, 1, 2), event=""),) * 10,
    }
    return FinishedRun(**(fields | changed))


def a_curve(env_steps, seconds, dollars, first, last, points=10):
    """`points` evaluations at equal distances, the returns from `first` to `last` in a straight line."""
    shares, means = np.arange(1, points + 1) / points, np.linspace(first, last, points)
    return tuple(
        CostPoint(env_steps=round(share * env_steps), seconds=share * seconds, dollars=share * dollars, mean=mean)
        for share, mean in zip(shares.tolist(), means.tolist(), strict=True)
    )


def empty_line(**used):
    fields = dict.fromkeys(("round", "env_steps", "rollouts", "learners", "groups", "invocations", "episodes"), 0)
    fields |= {"seconds": 0.0, "dollars": 0.0, "return_mean": None, "return_sd": None, "agent_returns": ()}
    return RoundLine(**{**fields, "env_metrics": {}, "metrics": {}, **used})
