"""The newest policies of a run on fresh start states."""

from collections.abc import Callable, Sequence
from contextlib import closing

import msgspec
import numpy as np

from marless.backends import registry
from marless.coordinator.config.loading import overrides
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.core import sides
from marless.coordinator.core.opponents import evaluated_side
from marless.coordinator.core.round_records import mean_env_metrics
from marless.coordinator.core.rounds import serving
from marless.coordinator.core.state import Plan, State
from marless.functions.messages.evaluator import EvaluateReply
from marless.functions.text.redaction import redact_settings
from marless.infra.local.available_cores import cores
from marless.reports import statistics
from marless.reports.digits import digits_of, figure
from marless.reports.notebook.shown_result import ShownResult
from marless.reports.section import Section
from marless.reports.statistics import FinalReturn
from marless.reports.text import plus_minus
from marless.runs.evaluator_episodes import play, tasks, with_task
from marless.runs.folder import RunFolder
from marless.runs.run_policies import temporary_download

_SAMPLED = "evaluation.greedy=false"


class EvaluationResult(ShownResult, msgspec.Struct, frozen=True, kw_only=True):
    """The returns of the policies of `run` after `round` rounds, undiscounted."""

    run: str
    round: int
    settings: tuple[str, ...]
    """The task's settings that differ from training, and `evaluation.greedy` if it is false."""
    returns: FinalReturn
    """Summed over all agents, or over the agents of `side`."""
    side: str
    """The side that ranks policies by its return, or '' if all agents cooperate."""
    agents: dict[str, float]
    """Mean return by agent."""
    sides: dict[str, float]
    """Mean return by side, if agents compete."""
    env_metrics: dict[str, float]
    """Means of the environment's metrics."""

    @property
    def headline(self) -> str:
        """Return the run, its policies and the mean return."""
        episodes = f"{self.returns.episodes:,} episodes on fresh start states"
        acting = "sampled actions" if _SAMPLED in map(str.lower, self.settings) else "greedy"
        parts = [f"{self.run}, policies of round {self.round:,}, {acting}", episodes, *self.settings]
        return f"{', '.join(parts)}: return {plus_minus(self.returns)}"

    @property
    def sections(self) -> list[Section]:
        """Return the tables of returns and of the environment's metrics."""
        ends = self.returns.ci95 or ()
        digits = digits_of([self.returns.mean, self.returns.iqm, *ends], 2)
        interval = f"95 % interval {' to '.join(map(digits.text, ends))}, " if ends else ""
        of = f"agents of side {self.side}" if self.side else "agents"
        mean, iqm = digits.text(self.returns.mean), digits.text(self.returns.iqm)
        rows = [("return", mean, f"IQM {iqm}, {interval}undiscounted, sum over {of}")]
        rows += [(name, figure(value, 3), "metric of the environment") for name, value in self.env_metrics.items()]
        rows += [(name, figure(value, 2), "return of the side") for name, value in self.sides.items()]
        rows += [(name, figure(value, 2), "return of the agent") for name, value in self.agents.items()]
        return [Section("", ("", "mean", ""), tuple(rows))]


def evaluate(
    folder: RunFolder,
    workers: int | None = None,
    episodes: int | None = None,
    settings: Sequence[str] = (),
    progress: Callable[[str], None] = lambda text: None,
) -> EvaluationResult:
    """Play whole episodes with evaluators on this machine, by default with a worker per core and
    `evaluation.final_episodes`. The task is the run's evaluations', changed by `settings` of ``task.*`` and
    `evaluation.greedy`. `progress` gets the count of ended episodes.

    Raises `UserError` for missing policies, a task that they cannot play, and a failed evaluator.
    """
    with temporary_download(folder) as (stored_run, temporary):
        plan, state = stored_run.plan, stored_run.saved_state
        played_settings = (*_own_options(plan.config, settings), *settings)
        count = episodes or plan.config.evaluation_sizes(state.env_spec.horizon).final
        with closing(registry.backend(registry.DEFAULT).open(temporary, workers or cores())) as connection:
            connection.serve(plan.config.resources)
            if played_settings:
                plan, state = with_task(plan, state, settings, connection.invoker)
            stream = f"evaluate-command-{count}"
            requests, function = tasks(plan, state, count, stream), serving(plan, "evaluator")
            replies = play(connection.invoker, function, requests, plan.config.attempts, progress)
    return _result(plan, state, played_settings, [reply for reply, _ in replies])


def _own_options(config: RunConfig, settings: Sequence[str]) -> list[str]:
    chosen_keys = {text.partition("=")[0] for text in settings}
    options = overrides({"task": {"options": redact_settings(config.evaluation.options)}})
    own_settings = [*options, *([] if config.evaluation.greedy else [_SAMPLED])]
    return [text for text in own_settings if text.partition("=")[0] not in chosen_keys]


def _result(plan: Plan, state: State, settings: tuple[str, ...], replies: list[EvaluateReply]) -> EvaluationResult:
    weights = [len(reply.returns) for reply in replies]
    means = np.average([reply.agent_returns for reply in replies], axis=0, weights=weights).tolist()
    side = evaluated_side(plan.config, state.env_spec)
    return EvaluationResult(
        run=plan.run,
        round=state.round,
        settings=settings,
        returns=statistics.summary([value for reply in replies for value in reply.returns]),
        side=side.name if side else "",
        agents=dict(zip(state.env_spec.agents, means, strict=True)),
        sides=sides.returns_of(state.env_spec, means),
        env_metrics=mean_env_metrics(replies),
    )
