"""A study in the cloud: its plan, its progress, and the next step as a pure function."""

import copy
from collections import Counter
from collections.abc import Mapping
from typing import Literal

import msgspec

from marless.coordinator.governor.concurrency_shares import divide
from marless.coordinator.governor.shared_budget import Purse, least
from marless.functions.encoding import own_format

# The purse of all runs. Owners' purses have their names, which are never empty.
_WHOLE = ""


class _Item(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A record in the ledger."""


class Grant(_Item, frozen=True, kw_only=True):
    """The limits of an active run: functions at once, and dollars of its bill (None means unlimited)."""

    width: int
    dollars: float | None


class RunOutcome(_Item, frozen=True, kw_only=True):
    """The end of a run, and its bill. `interrupted`: a user stopped it."""

    status: Literal["finished", "failed", "interrupted"]
    dollars: float
    reason: str = ""


class StudyPlan(_Item, frozen=True, kw_only=True):
    """The plan of a study, written once."""

    format_version: int | msgspec.UnsetType = msgspec.field(default_factory=own_format)
    study: str
    tenant: str
    # The file of the study. Another machine can make its folder from it.
    file: msgspec.Raw
    # The qualified coordinator that governs it and drives its runs.
    coordinator: str
    # Functions at once, all runs together.
    width: int
    # The most active runs at once.
    at_work: int
    # The owners of the runs, in the order of their starts.
    owners: dict[str, str]
    weights: dict[str, float]
    # Most dollars of all runs (None means unlimited), and of each owner who has a limit.
    dollars: float | None
    caps: dict[str, float]


class StudyState(_Item, frozen=True, kw_only=True):
    """A study between two steps: active runs and ended runs. All other runs wait."""

    format_version: int | msgspec.UnsetType = msgspec.field(default_factory=own_format)
    live: dict[str, Grant] = {}
    over: dict[str, RunOutcome] = {}
    purses: dict[str, Purse] = {}
    # The user ends it: no more runs begin.
    stopping: bool = False

    def is_over(self, plan: StudyPlan) -> bool:
        """Return whether the study has ended: all its runs are over, or it stops and none is active."""
        return not self.live and (self.stopping or len(self.over) == len(plan.owners))


def initial_state(plan: StudyPlan) -> StudyState:
    """The study before its first step."""
    runs = Counter(plan.owners.values())
    purses = {owner: Purse(cap, runs[owner]) for owner, cap in plan.caps.items()}
    return StudyState(purses={_WHOLE: Purse(plan.dollars, len(plan.owners)), **purses})


def advance(plan: StudyPlan, state: StudyState, outcomes: Mapping[str, RunOutcome]) -> StudyState:
    """Return the study after some active runs have ended. Others begin in their place, and all get their shares.

    The next run belongs to the owner with the fewest active runs for the weight. Grants of dollars never shrink while
    bills stay within them, so a run with an outdated grant does no harm.
    """
    purses = copy.deepcopy(state.purses)
    for run, outcome in outcomes.items():
        for purse in _purses_of(plan, purses, run):
            purse.end(run, outcome.dollars)
    live, over = [run for run in state.live if run not in outcomes], {**state.over, **outcomes}
    waiting = [] if state.stopping else [run for run in plan.owners if run not in state.live and run not in over]
    while waiting and len(live) < min(plan.width, plan.at_work):
        at_work = Counter(plan.owners[run] for run in live)
        following = min(waiting, key=lambda run: at_work[plan.owners[run]] / plan.weights.get(plan.owners[run], 1.0))
        waiting.remove(following)
        live.append(following)
        for purse in _purses_of(plan, purses, following):
            purse.begin(following, 0.0)
    widths = divide({run: plan.owners[run] for run in live}, plan.weights, plan.width)
    allowances = {run: least(purse.allowance(run) for purse in _purses_of(plan, purses, run)) for run in live}
    grants = {run: Grant(width=widths[run], dollars=allowances[run]) for run in live}
    return StudyState(live=grants, over=over, purses=purses, stopping=state.stopping)


def _purses_of(plan: StudyPlan, purses: dict[str, Purse], run: str) -> list[Purse]:
    return [purses[name] for name in (_WHOLE, plan.owners[run]) if name in purses]
