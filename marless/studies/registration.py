"""The registration of a study: one hash of the settings, seeds, targets and contrasts that its file declares.

Every run of the study keeps the hash (plan.json, summary.json), so that tables name the runs of a changed file.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from marless.coordinator.config.schema import ConfigError
from marless.reports.text import counted

# Settings are chosen on this seed and higher ones. Lower seeds are for the study that reports.
TUNING = 100
_SHOWN = 12


def registration_of(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of parsed content: comments and the order of keys change nothing."""
    return hashlib.sha256(json.dumps(msgspec.to_builtins(content), sort_keys=True).encode()).hexdigest()


def remark(runs: Mapping[str, int], now: str) -> str:
    """Return one sentence about the registrations of these `runs`, their numbers by hash, for a file or an
    ablation that has the registration `now`. Return '' where nothing is registered."""
    if not (others := {name: count for name, count in runs.items() if name != now}):
        return f"All runs have the registration {now[:_SHOWN]}." if now and runs else ""
    which = " and ".join(
        f"{counted(count, 'run')} under {f'another registration ({name[:_SHOWN]})' if name else 'none'}"
        for name, count in others.items()
    )
    beginning = (
        f"The registration is {now[:_SHOWN]}" if now else "The registration of the file does not cover this command"
    )
    return f"{beginning}. Of {sum(runs.values()):,} runs, these were made otherwise: {which}."


def count(registrations: Iterable[str]) -> dict[str, int]:
    """Return the number of runs by registration."""
    return dict(Counter(registrations))


def refuse_hold_outs(hold_outs: Collection[str], tasks: Iterable[str], seeds: Iterable[int], where: str) -> None:
    """Raise `ConfigError` for a hold-out task in a study that tunes: one with seeds of `TUNING` or more."""
    seed = next((seed for seed in seeds if seed >= TUNING), None)
    task = next((task for task in tasks if task in hold_outs), None)
    if seed is not None and task is not None:
        raise ConfigError(
            f"{where}: {task} is a hold-out, and seed {seed} is for choosing settings (seeds of {TUNING} or more),"
            " so choose them on other tasks"
        )
