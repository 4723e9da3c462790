"""Folders of runs made by hand, with the files that a report reads."""

import msgspec
from ablated_runs import empty_line

from marless.coordinator.config import toml_dump
from marless.coordinator.config.loading import load
from marless.functions.function_specs import NAMES
from marless.reports.evaluations import Evaluation, document
from marless.reports.provenance import EnvironmentFingerprint
from marless.runs.folder import Identity, RunFolder

_PARTS = dict.fromkeys((*NAMES, "storage", "requests"), 0.0)
_FINGERPRINT = EnvironmentFingerprint(python="3.11.1", numpy="2.0.1", machine="a machine", environment=None)
_NOTHING = ("commit", "start_up_seconds", "final_return", "absolute_return", "weights_sha256")


def a_line(round_, agents=2, evaluation=None, **used):
    """Round `round_` of 100 steps, 2 seconds and a tenth of a dollar. Every agent returns half the round's number."""
    given = {
        **{"round": round_, "env_steps": 100 * round_, "seconds": 2.0 * round_, "dollars": 0.1 * round_},
        **{"rollouts": 1, "groups": agents, "return_mean": 0.5 * agents * round_},
        **{"agent_returns": (0.5 * round_,) * agents, "team": tuple(range(agents)), "evaluation": evaluation},
        "metrics": {f"policy/entropy/g{agent:02d}": 1.0 / (round_ + agent) for agent in range(agents)},
    }
    return empty_line(**{**given, **used})


def a_folder(path, lines, seed=1, settings=(), summary=None, replay=b"", bill=()):
    """The folder of a run with this journal. `bill` has names of lines with their dollars. `summary` replaces fields of
    summary.json, and its evaluations come from the journal."""
    path.mkdir(parents=True)
    config = load(None, [f"seed={seed}", "task.name=toy/signal", *settings])
    identity = Identity(
        run=path.name,
        backend="local",
        code_sha256="c0de",
        commit="0123456789",
        environment_fingerprint=_FINGERPRINT,
        created="2026-01-02T03:04:05+00:00",
        configs=("c0ff",),
    )
    spent = lines[-1].dollars
    found = {
        **dict.fromkeys(_NOTHING),
        **{"run": path.name, "seed": seed, "status": "finished", "reason": "rounds", "rounds": lines[-1].round},
        **{"env_steps": lines[-1].env_steps, "wall_seconds": 1.0, "train_seconds": lines[-1].seconds, "peak_mb": {}},
        **{"env_steps_per_second": 1.0, "dollars": {"total": spent, **_PARTS, "learner": spent}},
        **{"machine": {"cores": 1, "platform": "a platform", "python": "3.11.1"}, **(summary or {})},
    }
    entries = [
        Evaluation(step_count=line.evaluation.env_steps, returns=line.evaluation.returns)
        for line in lines
        if line.evaluation
    ]
    (path / "plan.json").write_bytes(msgspec.json.encode(identity))
    (path / "config.toml").write_text(toml_dump.document(config))
    (path / "metrics.jsonl").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    layout = document(config.task, config.algorithm.name, seed, entries, ())
    (path / "evaluations.json").write_bytes(msgspec.json.encode(layout))
    (path / "summary.json").write_bytes(msgspec.json.encode(found))
    if bill:
        rows = [
            {"name": name, "quantity": 3, "unit": "request", "unit_price": 0.1, "dollars": dollars}
            for name, dollars in bill
        ]
        whole = {"region": "us-east-1", "prices_date": "2026-01-01", "note": "a note", "lines": rows}
        (path / "bill.json").write_bytes(msgspec.json.encode({**whole, "total": sum(dollars for _, dollars in bill)}))
    if replay:
        (path / "replay.gif").write_bytes(replay)
    return RunFolder(path)
