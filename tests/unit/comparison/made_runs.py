"""Finished runs, made without training: folders with the files that a comparison reads."""

from pathlib import Path

import msgspec
from ablated_runs import empty_line

from marless.comparison.arms_of_runs import arms_of
from marless.comparison.run_selection import collect
from marless.coordinator.config import toml_dump
from marless.coordinator.config.loading import load
from marless.functions.encoding import to_json
from marless.functions.function_specs import NAMES
from marless.reports.evaluations import Evaluation, document
from marless.studies import decisions
from marless.studies.study_file import Setting, StudyFile

_PARTS = dict.fromkeys((*NAMES, "storage", "requests"), 0.0)


def a_run(
    path, seed=1, returns=(1.0, 2.0), absolute=3.0, settings=(), status="finished", dollars=0.01, every=100, win=None
):
    """A run with an evaluation of two episodes every `every` steps. Each evaluation takes a second and so many dollars.

    The episodes' returns are one below and one above the values of `returns`. No `absolute`: it was stopped before.
    `win` are means of a metric of the environment, one for each evaluation. The last mean belongs to the absolute
    metric.
    """
    path.mkdir(parents=True)
    config = load(None, [f"seed={seed}", "task.name=toy/signal", *settings])
    steps = [every * (1 + index) for index in range(len(returns))]
    evaluations = [
        Evaluation(step_count=at, returns=(mean - 1, mean + 1), env_metrics={"Win": won} if win else {})
        for at, mean, won in zip(steps, returns, win or returns, strict=True)
    ]
    best = [] if absolute is None else [absolute]
    lines = [
        empty_line(round=1 + index, env_steps=at, seconds=1.0 * (1 + index), dollars=dollars * (1 + index))
        for index, at in enumerate(steps)
    ]
    spent = dollars * len(steps)
    summary = {
        **dict.fromkeys(("commit", "start_up_seconds", "final_return", "absolute_return", "weights_sha256")),
        **{"run": path.name, "seed": seed, "status": status, "reason": "", "rounds": len(steps)},
        **{"env_steps": steps[-1], "wall_seconds": 1.0, "train_seconds": 1.0 * len(steps), "peak_mb": {}},
        **{"env_steps_per_second": 1.0, "dollars": {"total": spent, **_PARTS, "learner": spent}},
        "machine": {"cores": 1, "platform": "", "python": ""},
    }
    (path / "plan.json").write_text("{}")
    (path / "config.toml").write_text(toml_dump.document(config))
    (path / "metrics.jsonl").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    figures = {"Win": win[-1]} if win else {}
    layout = document(config.task, config.algorithm.name, seed, evaluations, best, figures)
    (path / "evaluations.json").write_bytes(msgspec.json.encode(layout))
    (path / "summary.json").write_bytes(msgspec.json.encode(summary))


def a_study(path, settings, seeds=(1, 2), **how):
    """A study that lists `settings` with their values, by name. It is not trained, like `a_run`."""
    path = Path(path)
    for name, values in settings.items():
        for seed in seeds:
            a_run(path / "runs" / f"{name}-s{seed}", seed=seed, settings=values, **how)
    file = StudyFile(setting=[Setting(name=name) for name in settings])
    (path / "study.json").write_bytes(to_json(file))
    decisions.write(path, [decisions.Asked(name=name, values={}) for name in settings])


def made(name, *settings, seed=1, **how):
    a_run(Path("runs") / name, seed=seed, settings=settings, **how)
    return name


def arms(*names, by=()):
    """Return the seeds of these runs by arm and task, and the runs that are left out."""
    found, left_out = arms_of(collect(names).runs, by)
    return {arm.name: {task: list(runs) for task, runs in arm.runs.items()} for arm in found}, left_out
