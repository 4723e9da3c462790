"""Read the facts of one run for a page from its folder. Reading needs no lock."""

from dataclasses import dataclass
from typing import Any

import msgspec

from marless.coordinator.config.nested_tables import flatten
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.core.state import RoundLine
from marless.coordinator.errors import UserError
from marless.coordinator.file_reading import read_file, read_json, read_text
from marless.page.run_settings import hidden
from marless.program import program_name
from marless.reports.journal import read as read_lines
from marless.runs import summary as summaries
from marless.runs.folder import BILL, CONFIG, METRICS, POLICIES, REPLAY, Identity, RunFolder
from marless.runs.summary import Summary


class BillLine(msgspec.Struct, frozen=True):
    """A line of bill.json."""

    name: str
    quantity: float
    unit: str
    unit_price: float
    dollars: float


class StoredBill(msgspec.Struct, frozen=True):
    """The lines of bill.json for a page."""

    region: str
    prices_date: str
    note: str
    lines: tuple[BillLine, ...]
    total: float

    def __post_init__(self) -> None:
        summaries.require_sum([line.dollars for line in self.lines], self.total)


@dataclass(frozen=True)
class Facts:
    """A run with at least one finished round. `summary`, `bill` and `replay` (a GIF) are None if they are missing.

    `config_text` is config.toml, without values of keys that are secrets by their name.
    """

    name: str
    identity: Identity
    config: RunConfig
    config_text: str
    lines: tuple[RoundLine, ...]
    agents: tuple[str, ...]
    summary: Summary | None = None
    bill: StoredBill | None = None
    replay: bytes | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """Every setting by its dotted key."""
        return flatten(msgspec.to_builtins(self.config))


def read(folder: RunFolder) -> Facts:
    """The run in `folder`. Raises `UserError` if it has no finished round or an unreadable file."""
    if not (lines := tuple(read_lines(folder.path / METRICS))):
        raise UserError(f"{folder.name} has no finished round; see {program_name()} status {folder.argument}")
    config = folder.config()
    replay = folder.path / REPLAY
    return Facts(
        name=folder.name,
        identity=folder.identity(),
        config=config,
        config_text=hidden(read_text(folder.path / CONFIG), flatten(msgspec.to_builtins(config))),
        lines=lines,
        agents=_agents(folder, lines[-1]),
        summary=summaries.read(folder),
        bill=_bill(folder),
        replay=read_file(replay) if replay.is_file() else None,
    )


def _bill(folder: RunFolder) -> StoredBill | None:
    try:
        return read_json(folder.path / BILL, StoredBill)
    except FileNotFoundError:
        return None


def _agents(folder: RunFolder, line: RoundLine) -> tuple[str, ...]:
    from marless.reports.policy import agents_of

    if (folder.path / POLICIES).is_file():
        return agents_of(folder.path / POLICIES)
    return tuple(f"agent {number}" for number in range(max(len(line.team), len(line.agent_returns))))
