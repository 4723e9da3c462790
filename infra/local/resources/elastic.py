"""Choose the cores for each call of a resource if its settings allow several, for example ``cores = [1, 4]``.

The calls' times are fitted by ``t(k) = a + b / min(k, p)`` seconds on k cores: Amdahl's law for a computation that has
at most p parallel parts. Cores are handed out one by one, each to the call that gains most by it. Because t falls ever
more slowly, this spreads them evenly. No call gets a core if its core-seconds k t(k) would exceed twice the
core-seconds at its least. Running calls keep the cores that they began with.

The number of waiting calls that begin in parallel minimises the sum of their predicted completion times, plus the cost
of their additional core-seconds for later calls. A core-second delays all arrivals before the queue is empty again by 1
/ (number of cores). With n calls in the queue and cores that are busy for the part u of the time, about n u / (1 - u)
calls arrive. This is the number served in a busy period (Kleinrock 1975, "Queueing Systems", volume 1, section 5.9). So
an idle machine serves a batch with few wide calls if they use cores well. Under load every call has its least, where a
core-second does most. Where there are more cores than slots, each call has its part of them for nothing. No core idles
while a call waits that fits.
"""

from collections.abc import Callable, Mapping, Sequence
from math import exp, floor, log
from typing import NamedTuple

# The assumed seconds of a call before one has ended, and the least time of a call.
_UNKNOWN_S, _SHORTEST_S = 1.0, 1e-6
# How much a measurement weighs when the next has come: about the last five hundred count.
_KEPT = 0.998
# So many calls on the most cores are presumed to have been sped up perfectly, so that wide ones are tried.
_PRESUMED = 4.0
# A call never gets cores that raise its core-seconds above this times the core-seconds of its least.
_DEAREST = 2.0
# A wide call is presumed to take so much of its least's core-seconds more than was measured: measurements are few.
_DOUBT = 0.1
# A core that is busy for less than this part counts as idle, like with many tasks that only wait. With two cores a call
# less costs more than the part that two share.
_NEGLIGIBLE = 0.5
# Over how many calls, one after another, it is measured which part of the cores is busy, and the most that counts.
_RECENT_ACTIONS = 30.0
_BUSIEST = 0.99


class CoreCurve(NamedTuple):
    """Seconds of a call on k cores: ``fixed_s + divided_s / min(k, parts)``. Both are at least 0."""

    fixed_s: float
    divided_s: float
    parts: int

    def seconds(self, cores: int) -> float:
        """The time of a call on so many cores, in seconds."""
        return self.fixed_s + self.divided_s / min(cores, self.parts)


class SpeedUp:
    """The times of calls of one resource by their number of cores, from `least` to `most`."""

    def __init__(self, least: int, most: int) -> None:
        self.least, self.most = least, most
        # Weighted sums by the number of cores, of logarithms, because calls differ by factors.
        self._weights: dict[int, float] = {}
        self._logs: dict[int, float] = {}
        self.curve: CoreCurve | None = None
        """The curve through geometric means of the measurements, by least squares in 1 / min(k, p), or None before the
        first."""

    def add(self, cores: int, seconds: float) -> None:
        """A call has ended."""
        for number in self._weights:
            self._weights[number] *= _KEPT
            self._logs[number] *= _KEPT
        self._weights[cores] = self._weights.get(cores, 0.0) + 1.0
        self._logs[cores] = self._logs.get(cores, 0.0) + log(max(seconds, _SHORTEST_S))
        self.curve = self._fit()

    def least_s(self) -> float:
        """The time of a call at its least cores, or a second before the first measurement."""
        return self.curve.seconds(self.least) if self.curve else _UNKNOWN_S

    def _fit(self) -> CoreCurve:
        fewest = min(self._weights)
        perfect_s = exp(self._logs[fewest] / self._weights[fewest]) * fewest / self.most
        weights = {**self._weights, self.most: self._weights.get(self.most, 0.0) + _PRESUMED}
        logs = {**self._logs, self.most: self._logs.get(self.most, 0.0) + _PRESUMED * log(perfect_s)}
        points = {cores: (weight, exp(logs[cores] / weight)) for cores, weight in weights.items()}
        fits = [_fitted(points, parts) for parts in sorted(points, reverse=True)]
        return min(fits, key=lambda curve: _misfit(points, curve))


def _fitted(points: Mapping[int, tuple[float, float]], parts: int) -> CoreCurve:
    total = sum(weight for weight, _ in points.values())
    mean_x = sum(weight / min(cores, parts) for cores, (weight, _) in points.items()) / total
    mean_y = sum(weight * seconds for weight, seconds in points.values()) / total
    spread = [(weight, 1 / min(cores, parts) - mean_x, seconds - mean_y) for cores, (weight, seconds) in points.items()]
    variance = sum(weight * x * x for weight, x, _ in spread)
    slope = sum(weight * x * y for weight, x, y in spread) / variance if variance > 0 else 0.0
    if slope <= 0:
        return CoreCurve(mean_y, 0.0, parts)
    if (fixed_s := mean_y - slope * mean_x) >= 0:
        return CoreCurve(fixed_s, slope, parts)
    squares = sum(weight / min(cores, parts) ** 2 for cores, (weight, _) in points.items())
    products = sum(weight * seconds / min(cores, parts) for cores, (weight, seconds) in points.items())
    return CoreCurve(0.0, products / squares, parts)


def _misfit(points: Mapping[int, tuple[float, float]], curve: CoreCurve) -> float:
    return sum(weight * (seconds - curve.seconds(cores)) ** 2 for cores, (weight, seconds) in points.items())


class Load:
    """The part of the cores that was busy lately, 0 at first."""

    def __init__(self) -> None:
        self._since = self._busy = self.share = 0.0

    def change(self, now: float, busy: float, call_s: float) -> None:
        """From `now` on the part `busy` of the cores is. A call takes about `call_s`, above 0."""
        stays = exp(-max(0.0, now - self._since) / (_RECENT_ACTIONS * call_s))
        self.share = stays * self.share + (1 - stays) * self._busy
        self._since, self._busy = now, busy


class Cores(NamedTuple):
    """The cores of a machine: how many, how many idle, which part was `busy` lately, and how many for each slot of the
    resource."""

    total: int
    idle: int
    busy: float
    per_slot: int = 1


Plan = Sequence[tuple[int, int]]
"""How many calls begin with how many cores each, the most first."""


class ElasticCores:
    """Hands out the cores of a machine to the calls of one resource, at most `slots` at once. Each call gets `least` to
    `most` cores, and the machine has `most`."""

    def __init__(self, least: int, most: int, slots: int) -> None:
        self._speed_up, self._load, self._slots = SpeedUp(least, most), Load(), slots

    def add(self, cores: int, seconds: float) -> None:
        """A call has been answered, `seconds` after it began on so many cores."""
        self._speed_up.add(cores, seconds)

    def begin(self, waiting: int, slots: int, total: int, busy: float, now: float) -> list[int]:
        """The cores of each call that begins now, the most first: `waiting` of them wait, `slots` may begin, and
        `busy` of `total` cores are. To be asked whenever a call comes or ends, even if none waits."""
        call_s = self._speed_up.least_s()
        self._load.change(now, busy / total, call_s)
        idle = floor(total - busy + _NEGLIGIBLE)
        cores = Cores(total, idle, self._load.share, total // self._slots)
        plan = side_by_side(self._speed_up, waiting, slots, cores)
        self._load.change(now, min(1.0, (busy + sum(plan)) / total), call_s)
        return plan


def side_by_side(speed_up: SpeedUp, waiting: int, slots: int, cores: Cores) -> list[int]:
    """The cores of each call that begins now, while `waiting` of them wait and `slots` may begin, the most first.

    A call that needs more than there is begins when all cores are idle.
    """
    least = speed_up.least
    count = min(waiting, slots, cores.idle // least)
    if count < 1:
        return [least] if min(waiting, slots) > 0 and cores.idle == cores.total else []
    if (curve := speed_up.curve) is None:
        return [least] * count
    useful = _useful(curve, least, speed_up.most)
    usual = min(useful, max(least, cores.per_slot))
    all_begin = [_spread(cores.idle, count, most) for most in range(usual, useful + 1)]
    fewer_begin = [_spread(cores.idle, fewer, useful) for fewer in range(count - 1, 0, -1)]
    plans = all_begin + [plan for plan in fewer_begin if cores.idle - _total(plan, lambda k: k) < least]
    cheapest = min(plans, key=lambda plan: _cost(plan, curve, usual, waiting, cores))
    return [each for number, each in cheapest for _ in range(number)]


def _useful(curve: CoreCurve, least: int, most: int) -> int:
    """The most cores that make a call faster without taking more core-seconds than are allowed."""
    dearest = _DEAREST * least * curve.seconds(least) * (1 + 1e-9)
    useful = least
    while (
        useful < most
        and curve.seconds(useful + 1) < curve.seconds(useful)
        and ((useful + 1) * curve.seconds(useful + 1) <= dearest)
    ):
        useful += 1
    return useful


def _spread(idle: int, count: int, most: int) -> Plan:
    each, rest = divmod(idle, count)
    if each >= most:
        return [(count, most)]
    return [(rest, each + 1), (count - rest, each)] if rest else [(count, each)]


def _total(plan: Plan, value: Callable[[int], float]) -> float:
    return sum(number * value(each) for number, each in plan)


def _cost(plan: Plan, curve: CoreCurve, usual: int, waiting: int, cores: Cores) -> float:
    """The sum of the completion times of the waiting calls, if they begin in groups like the plan's, and of the delays
    of later calls."""
    usual_s = (1 - _DOUBT) * usual * curve.seconds(usual)

    def more_s(each: int) -> float:
        """Core-seconds of a call in addition to its usual cores' core-seconds."""
        return each * curve.seconds(each) - usual_s if each > usual else 0.0

    count = sum(number for number, _ in plan)
    groups, rest = divmod(waiting, count)
    last = _spread(cores.idle, rest, plan[0][1]) if rest else []
    group_s = curve.seconds(plan[-1][1])
    sum_s = groups * _total(plan, curve.seconds) + count * group_s * groups * (groups - 1) / 2
    sum_s += rest * groups * group_s + _total(last, curve.seconds)
    busy = min(cores.busy, _BUSIEST)
    delay_s = (groups * _total(plan, more_s) + _total(last, more_s)) / cores.total
    return sum_s + waiting * busy / (1 - busy) * delay_s
