"""Greedy episodes with a run's policies, played by evaluator functions for commands outside of a run."""

from collections.abc import Sequence

import msgspec

from coordinator.core.opponents import evaluated_side
from coordinator.core.state import Plan, State
from coordinator.drive.ports import Invoker
from coordinator.errors import UserError
from functions import keys
from functions.contract import Answer, Done, EvaluateReply, EvaluateTask, Failed, Report

# Episodes per evaluation task. Start states depend on the part, so results do not depend on which worker plays it.
PART = 160
_ANSWERS: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)
_ENCODER = msgspec.json.Encoder()


def tasks(plan: Plan, state: State, episodes: int, stream: str) -> list[EvaluateTask]:
    """Evaluation tasks that play `episodes` episodes on the start states of `stream`."""
    assert state.team is not None
    side = evaluated_side(plan.config, state.env_spec)
    return [
        EvaluateTask(
            id=keys.task_id(plan.run, state.round, f"{stream}/{part:05d}"),
            run=plan.run,
            round=state.round,
            output=keys.output_prefix(state.round, f"{stream}/{part:05d}"),
            timeout_s=plan.config.functions.evaluator.timeout_s,
            seed=plan.config.seed,
            environment=plan.config.task,
            team=state.team,
            policies=state.policies,
            stream=stream,
            part=part,
            episodes=min(PART, episodes - start),
            side=side.number if side else None,
        )
        for part, start in enumerate(range(0, episodes, PART))
    ]


def play(invoker: Invoker, asked: Sequence[EvaluateTask], attempts: int) -> list[tuple[EvaluateReply, Report]]:
    """Runs the tasks; returns replies in the order of `asked`. Raises `UserError` when one fails `attempts` times."""
    waiting = {task.id: task for task in asked}
    found: dict[str, tuple[EvaluateReply, Report]] = {}
    for task in asked:
        _ask(invoker, task)
    while waiting:
        for report in invoker.wait(0.5):
            task = waiting[report.id]
            answer = _ANSWERS.decode(report.body) if report.outcome == "answered" else None
            if isinstance(answer, Done) and isinstance(answer.reply, EvaluateReply):
                found[report.id] = answer.reply, report
                del waiting[report.id]
                continue
            final = isinstance(answer, Failed) and not answer.again
            if final or task.attempt + 1 >= attempts:
                raise UserError(answer.message if isinstance(answer, Failed) else f"{report.outcome}: {report.detail}")
            waiting[report.id] = msgspec.structs.replace(task, attempt=task.attempt + 1)
            _ask(invoker, waiting[report.id])
    return [found[task.id] for task in asked]


def _ask(invoker: Invoker, task: EvaluateTask) -> None:
    invoker.invoke("evaluator", task.id, task.attempt, _ENCODER.encode(task), task.timeout_s)
