"""The files of a run besides its objects. Some are written during training, all of them at the end."""

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from marless.coordinator.config.schema import RunConfig
from marless.coordinator.core.budget import bill_of
from marless.coordinator.core.state import Plan, RoundLine, State
from marless.coordinator.drive.ports import Storage
from marless.coordinator.file_reading import read_file
from marless.functions import codec
from marless.functions.encoding import to_json, to_json_file
from marless.functions.environments.base import EnvSpec
from marless.functions.errors import MissingExtra
from marless.functions.messages.message import Ref
from marless.functions.messages.team import Team
from marless.reports import attempts, statistics
from marless.reports.atomic_files import storage_errors
from marless.reports.journal import read
from marless.reports.plateau import Plateau, PlateauMonitor
from marless.reports.text import evaluated_options
from marless.runs import folder as files
from marless.runs.cloud_price import cloud_dollars
from marless.runs.folder import Identity, RunFolder
from marless.runs.integrity.file_hashes import FileHashes
from marless.runs.summary import Measured, Summary, summarise
from marless.runs.summary import read as read_summary

if TYPE_CHECKING:
    from marless.reports.learning_curve import CurvePoint
    from marless.reports.policy import TeamFile


class Documents:
    """Writes a run's files. Raises `StorageFault` if the disk rejects a write.

    If `pictures` is False, the learning curve is left out, which takes longer than all other files together. `hashes`
    are told of the files beforehand.
    """

    def __init__(
        self,
        folder: RunFolder,
        plan: Plan,
        identity: Identity,
        storage: Storage,
        hashes: FileHashes | None = None,
        pictures: bool = True,
    ) -> None:
        self._folder, self._plan, self._identity, self._storage = folder, plan, identity, storage
        self._hashes, self._pictures = hashes, pictures

    def interim(self, state: State, measurements: Measured, plateau: Plateau | None) -> None:
        """Write the bill and the summary so far. It is quick enough for every round."""
        self._write(state, {}, self._summary(state, measurements, "running", None, plateau))

    def complete(self, state: State, measurements: Measured, status: str) -> Summary:
        """Writes all files for `state`, the summary last."""
        weights, bodies = None, dict[str, bytes]()
        if state.objects:
            from marless.reports.weights import weights_sha256

            weights = weights_sha256(state, self._storage)
            bodies[files.POLICIES] = self.policy_file(state, state.policies, state.team)
            if state.best is not None:
                bodies[files.BEST_POLICIES] = self.policy_file(state, state.best.policies, state.best.team)
        lines = [line for line in read(self._folder.path / files.METRICS) if line.round <= state.round]
        if lines and self._pictures:
            self._curve(state, lines)
        bodies[files.EVALUATIONS] = self._evaluations(state, lines)
        monitor = PlateauMonitor(self._plan, lines)
        monitor.look()
        summary = self._summary(state, measurements, status, weights, monitor.plateau)
        price = cloud_dollars(self._plan, state, lines, attempts.read(self._folder.path / files.ATTEMPTS))
        summary = msgspec.structs.replace(summary, cloud_dollars=price)
        self._write(state, bodies, summary)
        return summary

    def policy_file(self, state: State, refs: Iterable[Ref], team: Team | None) -> bytes:
        """One playable file with the policies in `refs`, which belong to `team`."""
        from marless.reports.policy import export

        assert team is not None
        return export(header_of(self._plan, state.env_spec, team), codec.fetch_tensors(self._storage, refs))

    def _summary(
        self, state: State, measurements: Measured, status: str, weights: str | None, plateau: Plateau | None
    ) -> Summary:
        cost = bill_of(self._plan, state.meter)
        return summarise(self._plan, self._identity, state, cost, measurements, status, weights, plateau)

    def _write(self, state: State, bodies: dict[str, bytes], summary: Summary) -> None:
        bill = bill_of(self._plan, state.meter).to_json()
        bodies = {**bodies, files.BILL: bill, files.SUMMARY: to_json_file(summary)}
        if self._hashes is not None:
            self._hashes.expect(state.round, bodies)
        for name, body in bodies.items():
            self._folder.write(name, body)

    def _evaluations(self, state: State, lines: list[RoundLine]) -> bytes:
        from marless.reports.evaluations import Evaluation, document

        entries = [
            Evaluation(step_count=evaluation.env_steps, returns=evaluation.returns, env_metrics=evaluation.env_metrics)
            for evaluation in (line.evaluation for line in lines)
            if evaluation
        ]
        if state.final:
            entries.append(
                Evaluation(step_count=state.env_steps, returns=state.final, env_metrics=state.final_env_metrics)
            )
        config = self._plan.config
        algorithm = config.algorithm.name
        layout = document(config.task, algorithm, config.seed, entries, state.absolute, state.absolute_env_metrics)
        return to_json(layout) + b"\n"

    def _curve(self, state: State, lines: list[RoundLine]) -> None:
        # Without matplotlib it is left out, as `marless doctor` explains.
        from marless.reports.learning_curve import draw

        path = self._folder.path / files.CURVE
        with suppress(MissingExtra), storage_errors(path):
            draw(curve_points(state, lines), path, curve_title(self._plan.config), self._plan.run)


def header_of(plan: Plan, spec: EnvSpec, team: Team) -> "TeamFile":
    """The header of a run's policy file."""
    from marless.reports.policy import TeamFile

    greedy = plan.config.algorithm.resolved(spec).behaviour(0).kind != "sample"
    return TeamFile(task=plan.config.task, spec=spec, team=team, greedy=greedy)


def curve_title(config: RunConfig) -> str:
    """Return a line with the run's algorithm, task and seed."""
    options = evaluated_options(config)
    evaluated = f"; evaluated with {options}" if options else ""
    return f"{config.algorithm.name} on {config.task.name}, seed {config.seed}{evaluated}"


def stored_curve(folder: RunFolder) -> list["CurvePoint"]:
    """`curve_points` of the run as its files have it, with the evaluation of the final policies if there was one."""
    from marless.reports.evaluations import read as read_evaluations

    state, lines = State(), read(folder.path / files.METRICS)
    with suppress(FileNotFoundError):
        if done := read_evaluations(read_file(folder.path / files.EVALUATIONS)):
            state = msgspec.structs.replace(state, env_steps=done[-1].step_count, final=done[-1].returns)
    if (summary := read_summary(folder)) is not None and summary.env_steps == state.env_steps:
        state = msgspec.structs.replace(state, final_sides=summary.final_sides)
    return curve_points(state, lines)


def curve_points(state: State, lines: list[RoundLine]) -> list["CurvePoint"]:
    """Return one point per finished round. An evaluation belongs to the round that trained its policies."""
    from marless.reports.learning_curve import CurvePoint

    returns = {line.evaluation.env_steps: line.evaluation.returns for line in lines if line.evaluation}
    by_side = {line.evaluation.env_steps: line.evaluation.side_returns for line in lines if line.evaluation}
    if state.final_sides:
        by_side[state.env_steps] = state.final_sides
    if state.final:
        returns[state.env_steps] = state.final
    return [
        CurvePoint(
            steps=line.env_steps,
            seconds=line.seconds,
            dollars=line.dollars,
            sampled_return=line.return_mean,
            evaluation=statistics.summary(returns[line.env_steps]) if line.env_steps in returns else None,
            sampled_sides=line.side_returns,
            evaluated_sides=by_side.get(line.env_steps, {}),
        )
        for line in lines
    ]
