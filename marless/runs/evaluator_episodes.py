"""Episodes with a run's policies, played by evaluator functions for commands outside of a run."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import msgspec

from marless.coordinator.config.loading import convert, override
from marless.coordinator.core.events import decode_answer
from marless.coordinator.core.opponents import evaluated_side
from marless.coordinator.core.requests import address, describe, evaluate
from marless.coordinator.core.rounds import serving
from marless.coordinator.core.state import Plan, State
from marless.coordinator.drive.ports import Invoker
from marless.coordinator.errors import UserError
from marless.functions.messages.actor import DescribeReply, DescribeTask, SampleTask
from marless.functions.messages.evaluator import EvaluateReply, EvaluateTask
from marless.functions.messages.exchange import Done, Failed, Report
from marless.functions.messages.order import Attempt
from marless.reports.regrouped_team import regrouped

# Episodes per evaluation task. Start states depend on the part, so results are the same for any worker.
PART = 160


def with_task(plan: Plan, state: State, settings: Sequence[str], invoker: Invoker) -> tuple[Plan, State]:
    """Return the plan and the state of evaluations, with other ``task.KEY=VALUE`` or ``evaluation.greedy``.

    If this changes the number of agents, those of a class take the networks of its trained agents in turn. Raises
    `UserError` for other settings, a task that cannot be made, and a task with unknown agents.
    """
    if other := next((text for text in settings if not text.startswith(("task.", "evaluation.greedy="))), ""):
        raise UserError(f"{other}: policies are what they are; only task.* and evaluation.greedy can be set anew")
    evaluation = msgspec.structs.replace(plan.config.evaluation, options={})
    document = msgspec.to_builtins(
        msgspec.structs.replace(plan.config, task=plan.config.evaluated_task, evaluation=evaluation)
    )
    override(document, settings)
    plan = replace(plan, config=convert(document, "the command line"))
    function = serving(plan, "actor")
    request = msgspec.structs.replace(describe(plan, state), timeout_s=plan.size_of(function).timeout_s)
    ((done, _),) = answers(invoker, function, [request], plan.config.attempts)
    assert isinstance(done.reply, DescribeReply)
    spec = done.reply.spec
    assert state.team is not None
    team = regrouped(state.team, state.env_spec, spec, plan.config.task, plan.run)
    return plan, msgspec.structs.replace(state, spec=spec, team=team)


def tasks(plan: Plan, state: State, episodes: int, stream: str) -> list[EvaluateTask]:
    """Evaluation tasks that play `episodes` episodes on the start states of `stream`."""
    side = evaluated_side(plan.config, state.env_spec)
    task = evaluate(plan, state, plan.config.task, stream, state.policies, state.team, side)
    task = msgspec.structs.replace(task, timeout_s=plan.size_of(serving(plan, "evaluator")).timeout_s)
    return [
        msgspec.structs.replace(
            task, address=address(plan, state, f"{stream}/{part:05d}"), part=part, episodes=min(PART, episodes - start)
        )
        for part, start in enumerate(range(0, episodes, PART))
    ]


def play(
    invoker: Invoker,
    function: str,
    requests: Sequence[EvaluateTask],
    attempts: int,
    progress: Callable[[str], None] = lambda text: None,
) -> list[tuple[EvaluateReply, Report]]:
    """Let `function` do the tasks, and return replies in the order of `requests`. `progress` is told how many episodes
    are over. Raises `UserError` when one fails `attempts` times."""
    episodes, over = sum(task.episodes for task in requests), 0
    progress(f"{over:,} of {episodes:,} episodes")
    replies_by_task: dict[str, tuple[EvaluateReply, Report]] = {}
    episodes_by_task = {task.address.id: task.episodes for task in requests}
    for done, report in answers(invoker, function, requests, attempts):
        assert isinstance(done.reply, EvaluateReply)
        replies_by_task[done.id] = done.reply, report
        over += episodes_by_task[done.id]
        progress(f"{over:,} of {episodes:,} episodes")
    return [replies_by_task[task.address.id] for task in requests]


def answers(
    invoker: Invoker, function: str, requests: Sequence[DescribeTask | EvaluateTask | SampleTask], attempts: int
) -> Iterator[tuple[Done, Report]]:
    """Yield the answers as they come. Raises `UserError` if a task fails `attempts` times."""
    waiting = {task.address.id: task for task in requests}
    for task in requests:
        _ask(invoker, function, task)
    while waiting:
        for report in invoker.wait(0.5):
            task = waiting[report.id]
            report, answer = decode_answer(report)
            if isinstance(answer, Done):
                del waiting[report.id]
                yield answer, report
                continue
            final = isinstance(answer, Failed) and not answer.again
            if final or task.attempt + 1 >= attempts:
                raise UserError(answer.message if isinstance(answer, Failed) else f"{report.outcome}: {report.detail}")
            waiting[report.id] = msgspec.structs.replace(task, attempt=task.attempt + 1)
            _ask(invoker, function, waiting[report.id])


def _ask(invoker: Invoker, function: str, task: DescribeTask | EvaluateTask | SampleTask) -> None:
    invoker.invoke(Attempt(function, task))
