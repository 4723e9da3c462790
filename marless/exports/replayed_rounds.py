"""Rounds with deleted trajectories. The run is played again from its first round, which gives the same bytes, and is
compared with its records round by round."""

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import structs

from marless.backends import registry
from marless.backends.base import Connection
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.core.state import RoundLine, State
from marless.coordinator.drive.driver import Driver
from marless.coordinator.drive.ports import Ports, Storage
from marless.coordinator.errors import UserError
from marless.coordinator.placement.placement_rules import PLACEMENTS
from marless.exports.stored_rounds import SampledRound, sampled_round
from marless.functions import codec, keys
from marless.functions.encoding import to_json
from marless.functions.setting_limits import MOST_ROUNDS
from marless.functions.storage_port import Blobs
from marless.program import program_name
from marless.reports import journal
from marless.reports.text import counted, seconds
from marless.reports.weights import weights_sha256
from marless.runs.folder import METRICS, RunFolder
from marless.runs.integrity.code_record import changes_here
from marless.runs.stored_run import Stored, plan_of

_TRAJECTORY = keys.object_key("", "trajectory")
# Fields that depend on when and where a round ran, and not on play and learning.
_INCIDENTAL = {
    "seconds": 0.0,
    "dollars": 0.0,
    "learners": 0,
    "invocations": 0,
    "placement": "",
    "evaluation": None,
    "actions": {},
}


@dataclass(frozen=True)
class PlayAgain:
    """The settings for playing a run again, with so many workers. `announce` gets the cost once, before it begins, and
    `progress` the state of the work."""

    workers: int = 1
    announce: Callable[[str], None] = lambda text: None
    progress: Callable[[str], None] = lambda text: None


ALONE = PlayAgain()
"""On one worker, in silence."""


def replayed_rounds(folder: RunFolder, run: Stored, first: int, last: int, again: PlayAgain) -> list[SampledRound]:
    """The rounds `first` to `last`, counted from 1, which the run has finished. Runs the task's code.

    Raises `UserError` at the first round that differs from the run's records, for a run without such records, and if a
    task fails.
    """
    lines = {line.round: line for line in journal.read(folder.path / METRICS) if line.round <= last}
    if missing := sorted(set(range(1, last + 1)) - lines.keys()):
        raise UserError(
            f"{folder.path / METRICS} has no round {missing[0]}, with which the run played again is compared; of a"
            f" detached run `{program_name()} status --follow {folder.argument}` writes it"
        )
    again.announce(
        f"{_numbers(first, last)} of {folder.name} {'are' if last > first else 'is'} not stored: playing its first"
        f" {counted(last, 'round')} again, which took it {seconds(lines[last].seconds)}, here on"
        f" {counted(again.workers, 'worker')}"
    )
    with TemporaryDirectory(prefix="marless-") as temporary:
        backend = registry.backend(registry.DEFAULT)
        with closing(backend.open(Path(temporary), again.workers)) as connection:
            storage = _KeepsTrajectories(connection.storage, range(first - 1, last))
            comparison = _Comparison(folder, run, lines, lambda done: again.progress(f"{done:,} of {last:,} rounds"))
            state = _play(run, replace(connection, storage=storage), comparison, last)
            if state.round < last:
                raise UserError(f"{folder.name}, played again, ended in round {state.round + 1}: {state.reason}")
            comparison.compare_weights(state, storage)
            return [_read_round(storage, round_) for round_ in range(first - 1, last)]


def _play(run: Stored, connection: Connection, comparison: "_Comparison", last: int) -> State:
    for ref in run.plan.inputs.refs():
        connection.storage.put(ref.key, codec.fetch(run.storage, ref))
    for key in run.storage.list(keys.ANSWERS):
        connection.storage.put(key, run.storage.get(key))
    connection.serve(run.plan.config.resources)
    plan = plan_of(run.identity, playable_again(run.plan.config), connection)
    driver = Driver(plan, Ports(connection.storage, connection.ledger, connection.invoker, comparison))
    driver.begin()
    while driver.step(pause_at=last):
        pass
    return driver.state


def playable_again(config: RunConfig) -> RunConfig:
    """The configuration of the same rounds without evaluations, limits in seconds and dollars, and with trajectories
    that are stored."""
    rule = PLACEMENTS[config.placement.rule]
    placement = structs.replace(config.placement, inline_objects=False)
    if rule.one_function or rule.planned:
        placement = structs.replace(placement, rule="packed")
    return structs.replace(
        config,
        placement=placement,
        stop=structs.replace(config.stop, seconds=None, dollars=None, return_=None),
        evaluation=structs.replace(config.evaluation, every=MOST_ROUNDS + 1),
    )


class _KeepsTrajectories:
    """The storage of a run that is played again. It keeps the trajectories of `rounds`, and may be lost in a power
    failure."""

    def __init__(self, storage: Storage, rounds: Iterable[int]) -> None:
        self._storage = storage
        self._prefixes = tuple(f"{keys.round_prefix(round_)}/" for round_ in rounds)
        self.get, self.put, self.list = storage.get, storage.put, storage.list

    def persist(self, keys: Iterable[str]) -> None:
        """See `Storage`."""

    def delete(self, keys: Iterable[str]) -> None:
        """See `Storage`."""
        self._storage.delete(key for key in keys if not (key.startswith(self._prefixes) and key.endswith(_TRAJECTORY)))


class _Comparison:
    def __init__(
        self, folder: RunFolder, run: Stored, lines: dict[int, RoundLine], on_round: Callable[[int], None]
    ) -> None:
        self._folder, self._run, self._lines, self._on_round = folder, run, lines, on_round

    def record(self, line: RoundLine) -> None:
        """See `Journal`. Raises `UserError` for a round that differs."""
        before, now = (structs.replace(one, **_INCIDENTAL) for one in (self._lines[line.round], line))
        for name in RoundLine.__struct_fields__:
            one, other = (to_json(_sorted(getattr(each, name))) for each in (before, now))
            if one != other:
                raise self._fault(line.round, f"its {name} differs")
        self._on_round(line.round)

    def persist(self) -> None:
        """See `Journal`."""

    def compare_weights(self, state: State, storage: Blobs) -> None:
        """Raises `UserError` where the run stopped after this round, with other weights."""
        end = self._run.saved_state
        if end.round == state.round and weights_sha256(end, self._run.storage) != weights_sha256(state, storage):
            raise self._fault(state.round, "its weights differ")

    def _fault(self, round_: int, what: str) -> UserError:
        config, identity = self._run.plan.config, self._run.identity
        reasons = [*changes_here(self._folder, identity, config), *(c.text for c in identity.changes)]
        reason = ", ".join(map(str, reasons)) or (
            "the task does not repeat itself, a limit (stop.*) was raised on the way, or the record was changed"
        )
        return UserError(f"{self._folder.name} played again is another run from round {round_} on, {what}: {reason}")


def _sorted(value: Any) -> Any:
    """A mapping by its names: which of a round's learners named a metric first depends on the slots."""
    return dict(sorted(value.items())) if isinstance(value, dict) else value


def _read_round(storage: Storage, round_: int) -> SampledRound:
    names = [key for key in storage.list(f"{keys.round_prefix(round_)}/sample/") if key.endswith(_TRAJECTORY)]
    return sampled_round(storage, round_, tuple(codec.reference(key, storage.get(key)) for key in names))


def _numbers(first: int, last: int) -> str:
    return f"rounds {first:,} to {last:,}" if last > first else f"round {first:,}"
