"""Actions of resources, counted over tasks: what goes on the bill, and how long actions took to complete.

Times are kept as counts in buckets of 2 % (DDSketch: Masson, Rim and Lee, "DDSketch: a fast and fully-mergeable
quantile sketch with relative-error guarantees", VLDB 2019), because every commit of a run's state pays for its bytes.
They are shown, and no rule reads them.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from math import ceil, log

import msgspec

from marless.functions.messages.message import Message
from marless.functions.messages.usage import ActionTime, ActionUse

# The relative error of a quantile, and with it the ratio of a bucket's bounds.
ERROR = 0.01
_RATIO = (1 + ERROR) / (1 - ERROR)
# Shorter times count as this.
_LEAST_MS = 1e-3


class ActionTally(Message, frozen=True, kw_only=True):
    """The actions of one resource since a round began."""

    use: ActionUse = ActionUse()
    """What tasks used."""
    timed: int = 0
    """The actions whose completion times are known."""
    sum_ms: float = 0.0
    """Of their completion times."""
    buckets: dict[int, int] = msgspec.field(default_factory=dict)
    """How many of them took more than ratio^(i - 1) milliseconds and at most ratio^i, by i."""

    def plus(self, use: ActionUse, completion_ms: Iterable[float]) -> "ActionTally":
        """With more actions, and the completion times of some."""
        times = [max(_LEAST_MS, each) for each in completion_ms]
        buckets = dict(self.buckets)
        for each in times:
            index = ceil(log(each) / log(_RATIO))
            buckets[index] = buckets.get(index, 0) + 1
        return msgspec.structs.replace(
            self,
            use=self.use + use,
            timed=self.timed + len(times),
            sum_ms=self.sum_ms + sum(times),
            buckets=buckets,
        )

    @property
    def mean_ms(self) -> float | None:
        """The mean completion time; None without one."""
        return self.sum_ms / self.timed if self.timed else None

    def quantile_ms(self, share: float) -> float | None:
        """The shortest completion time that at least this share of the actions did not exceed, within 1 %; None without
        one. Of less than a hundred p99 is the longest, so that it is not below their mean."""
        rank = ceil(share * self.timed)
        for index, count in sorted(self.buckets.items()):
            rank -= count
            if rank <= 0:
                return float(2 * _RATIO**index / (_RATIO + 1))
        return None


@dataclass(frozen=True)
class AskedActions:
    """What an attempt at a work item asked of resources, by name, and when."""

    attempt: int
    use: Mapping[str, ActionUse]
    times: tuple[ActionTime, ...] = ()
    told_again: bool = False
    """Another attempt tells it, which found it stored: the attempt may have told it, too."""

    def without(self, names: Collection[str]) -> "AskedActions":
        """Those of all other resources."""
        return replace(self, use={name: use for name, use in self.use.items() if name not in names})

    def completion_ms(self, name: str) -> list[float]:
        """The completion times of a resource's actions."""
        return [each.completion_ms for each in self.times if each.resource == name]


def unbilled(
    billed: Mapping[int, Mapping[str, ActionUse]], actions: AskedActions, kept_names: Collection[str]
) -> dict[str, ActionUse]:
    """What of `actions` is not on the bill yet; `billed` has what earlier reports of the work item told, by attempt.

    A work item pays a kept answer once, whichever of its attempts tells of it: what an attempt tells of the resources
    `kept_names` includes what those before it told. All other actions are paid by the attempt that asked them.
    """
    new: dict[str, ActionUse] = {}
    for name, use in actions.use.items():
        if name in kept_names:
            new[name] = _beyond(use, [before[name] for before in billed.values() if name in before])
        elif not (actions.told_again and actions.attempt in billed):
            new[name] = use
    return new


def _beyond(use: ActionUse, earlier: Iterable[ActionUse]) -> ActionUse:
    """What `use` has more than the most of the `earlier`, count by count."""
    most = ActionUse()
    for each in earlier:
        most += each.beyond(most)
    return use.beyond(most)
