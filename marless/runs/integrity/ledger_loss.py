"""Find runs with a missing, empty or outdated ledger: a copy or a disk has lost it."""

from collections.abc import Iterable
from contextlib import suppress

import msgspec

from marless.coordinator.core.state import State
from marless.coordinator.errors import UserError
from marless.coordinator.file_reading import UnreadableFile, read_end
from marless.functions import keys
from marless.functions.encoding import JsonDecoder, Undecodable
from marless.program import program_name
from marless.runs import summary
from marless.runs.folder import (
    ATTEMPTS,
    BEST_POLICIES,
    BILL,
    CONFIG,
    EVALUATIONS,
    METRICS,
    POLICIES,
    SUMMARY,
    RunFolder,
)

# The lines of a long run are not read for its last one.
_TAIL_BYTES = 1 << 20


class _Numbered(msgspec.Struct, frozen=True):
    round: int


_ROUNDS = JsonDecoder(_Numbered)

# The files that a run has only after its first commit.
_RESULTS = (METRICS, ATTEMPTS, BILL, SUMMARY, EVALUATIONS, POLICIES, BEST_POLICIES)


def refuse_lost(folder: RunFolder, objects: Iterable[str]) -> None:
    """Raise `UserError` if a run without a state in its ledger had begun, by its files and objects. A new start would
    replace them and forget its cost."""
    files_left = [name for name in _RESULTS if (folder.path / name).is_file()]
    if not files_left and not keys.of_rounds(objects):
        return
    rounds = _last_round(folder)
    began = f"the run began ({rounds} rounds in {METRICS})" if rounds else "the run began"
    policies = ", its policies load (marless.load_policy, --against, export --best)" if POLICIES in files_left else ""
    raise UserError(
        f"{folder.name} has lost its ledger: {began}, and nothing is known of it. Nothing was changed. Restore the"
        f" ledger from a copy{policies}, or train these settings anew: {program_name()} train {folder.path / CONFIG}"
    )


def behind(folder: RunFolder, state: State) -> str:
    """Return the reason why the ledger is older than the run's other files, or ''.

    Files follow commits, so only a power loss or an incomplete copy of the ledger leaves it behind.
    """
    recorded_summary = summary.earlier(folder)
    rounds = {SUMMARY: recorded_summary.rounds if recorded_summary else 0}
    rounds[METRICS] = _last_round(folder)
    later = [f"{name} of round {last}" for name, last in rounds.items() if last > state.round]
    return f"the ledger ends at round {state.round}, {' and '.join(later)}: a part of it was lost" if later else ""


def _last_round(folder: RunFolder) -> int:
    try:
        text = read_end(folder.path / METRICS, _TAIL_BYTES)
    except UnreadableFile:
        return 0
    for line in reversed(text.split(b"\n")):
        with suppress(Undecodable):
            return _ROUNDS.decode(line).round
    return 0
