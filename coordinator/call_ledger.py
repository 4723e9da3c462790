"""The calls of resources by the tasks of a run: their payers and their completion times.

Times are counts in buckets of 2 %, because every commit of a run's state pays for its bytes. The method is DDSketch
(Masson, Rim and Lee, "DDSketch: a fast and fully-mergeable quantile sketch with relative-error guarantees", VLDB 2019).
They are shown, and no rule reads them.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from math import ceil, log
from typing import NamedTuple, Self

import msgspec

from marless.functions.messages.exchange import Answer, Done, Report
from marless.functions.messages.message import Message
from marless.functions.messages.usage import CallTime, CallUse

# The relative error of a quantile, and with it the ratio of a bucket's bounds.
ERROR = 0.01
_RATIO = (1 + ERROR) / (1 - ERROR)
# Shorter times count as this.
_LEAST_MS = 1e-3


class CallTally(Message, frozen=True, kw_only=True):
    """The actions of one resource since a round began."""

    use: CallUse = CallUse()
    """What tasks used."""
    timed: int = 0
    """The actions whose completion times are known."""
    sum_ms: float = 0.0
    """Of their completion times."""
    buckets: dict[int, int] = msgspec.field(default_factory=dict)
    """How many of them took more than ratio^(i - 1) milliseconds and at most ratio^i, by i."""

    def plus(self, use: CallUse, completion_ms: Iterable[float]) -> "CallTally":
        """With more actions, and the completion times of some."""
        times = [max(_LEAST_MS, each) for each in completion_ms]
        buckets = dict(self.buckets)
        for each in times:
            index = ceil(log(each) / log(_RATIO))
            buckets[index] = buckets.get(index, 0) + 1
        return msgspec.structs.replace(
            self, use=self.use + use, timed=self.timed + len(times), sum_ms=self.sum_ms + sum(times), buckets=buckets
        )

    @property
    def mean_ms(self) -> float | None:
        """The mean completion time in milliseconds, or None."""
        return self.sum_ms / self.timed if self.timed else None

    def quantile_ms(self, share: float) -> float | None:
        """Return the `share` quantile of completion times in milliseconds, within 1 %, or None. With fewer than a
        hundred times, p99 is the longest, so that it is at least their mean."""
        rank = ceil(share * self.timed)
        for index, count in sorted(self.buckets.items()):
            rank -= count
            if rank <= 0:
                return float(2 * _RATIO**index / (_RATIO + 1))
        return None


@dataclass(frozen=True)
class AttemptCalls:
    """The calls of resources that the report of an attempt tells of."""

    attempt: int
    """The attempt that made the calls."""
    use: Mapping[str, CallUse]
    """Use by resource."""
    times: tuple[CallTime, ...] = ()
    """When they were made."""
    repeats_earlier_report: bool = False
    """Whether another attempt tells of them, which found them stored. Their own attempt may have told of them, too."""

    @classmethod
    def of(cls, report: Report, answer: Answer | None, resources: Collection[str]) -> Self:
        """The calls of these resources."""
        by_name, times = (answer.usage.calls, answer.call_times) if answer else (report.call_use, report.call_times)
        asked_in = answer.calls_of if isinstance(answer, Done) else None
        use = {name: use for name, use in by_name.items() if name in resources}
        return cls(report.attempt if asked_in is None else asked_in, use, times, asked_in is not None)

    def without(self, names: Collection[str]) -> Self:
        """The calls of all other resources."""
        return replace(self, use={name: use for name, use in self.use.items() if name not in names})


class CallLedger(NamedTuple):
    """The payers of the calls of resources. Each call is paid once, even if it is reported again.

    * A call is paid by the attempt that made it.
    * A kept answer is paid by the work item that asked for it first, in whichever of its attempts. All others get it as
      a hit (`marless.functions.resources.kept_answers`). An attempt also reports the kept answers of the attempts
      before it.
    * After its work item was answered and a checkpoint was made, an attempt pays for no kept answer any more.
    """

    paid: Mapping[str, Mapping[int, Mapping[str, CallUse]]]
    """Reported calls since the last checkpoint, by round and work name, and by attempt."""
    tallies: Mapping[str, CallTally]
    """The calls since the last round ended, by resource."""

    def record(
        self, work: str, calls: AttemptCalls, kept_names: Collection[str], is_over: bool
    ) -> tuple["CallLedger", dict[str, CallUse]]:
        """The ledger with the calls of an attempt at the work item, and the part of them that is to be paid now.

        The resources `kept_names` keep answers. `is_over`: no task waits for the work item any more.
        """
        earlier = self.paid.get(work, {})
        if is_over and not earlier:
            calls = calls.without(kept_names)
        is_known = calls.repeats_earlier_report and calls.attempt in earlier
        unpaid, tallies = dict[str, CallUse](), dict(self.tallies)
        for name, use in calls.use.items():
            if is_known and name not in kept_names:
                continue
            if name in kept_names:
                use = _beyond(use, [before[name] for before in earlier.values() if name in before])
            times = () if is_known else (each.completion_ms for each in calls.times if each.resource == name)
            tallies[name] = tallies.get(name, CallTally()).plus(use, times)
            unpaid[name] = use
        return CallLedger({**self.paid, work: {**earlier, calls.attempt: calls.use}}, tallies), unpaid

    def since(self, round_: int) -> "CallLedger":
        """The ledger without the work items of the rounds before this one."""
        paid = {work: attempts for work, attempts in self.paid.items() if int(work.partition("/")[0]) >= round_}
        return self._replace(paid=paid)


def _beyond(use: CallUse, earlier: Iterable[CallUse]) -> CallUse:
    most = CallUse()
    for each in earlier:
        most += each.beyond(most)
    return use.beyond(most)
