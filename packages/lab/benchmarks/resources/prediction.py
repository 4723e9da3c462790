"""The duration of actions and rounds by the trajectories' draws alone, on a virtual clock, without random numbers.

Start-ups, hand-overs, learners and the coordinator are left out. Cores are handed out by the scheduler's own code.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count
from statistics import mean
from typing import NamedTuple

from benchmarks.pipeline.prediction import ends_s
from marless.infra.local.resources.elastic import ElasticCores


class Trajectory(NamedTuple):
    """Seconds of its thoughts, and the sizes of the actions that follow each: seconds too where a slot is all they
    need."""

    thinks_s: Sequence[float]
    sizes: Sequence[float]


Round = Sequence[Trajectory]


class Predicted(NamedTuple):
    """Means over all actions, from the call until the answer, and over all rounds."""

    action_s: float
    round_s: float


class Clock:
    """Calls events in the order of their times."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def after(self, seconds: float, happen: Callable[[], None]) -> None:
        """Calls `happen` so much later. Of the same time those first that were said first."""
        heappush(self._events, (self.now + seconds, next(self._numbers), happen))

    def run(self) -> None:
        """Until nothing is left."""
        while self._events:
            self.now, _, happen = heappop(self._events)
            happen()


class Resource:
    """Serves actions in their order: `slots` at once, each with a core of `cores`, or with as many as `elastic` gives
    it. `seconds(size, cores)` is how long an action takes."""

    def __init__(
        self,
        clock: Clock,
        slots: int,
        seconds: Callable[[float, int], float] = lambda size, _: size,
        cores: int = 0,
        elastic: ElasticCores | None = None,
    ) -> None:
        self._clock, self._slots, self._seconds, self._elastic = clock, slots, seconds, elastic
        self._idle = self._cores = cores or slots
        self._queue: deque[tuple[float, Callable[[], None]]] = deque()

    def ask(self, size: float, then: Callable[[], None]) -> None:
        """Calls `then` when the action has ended."""
        self._queue.append((size, then))
        self._begin()

    def _begin(self) -> None:
        for cores in self._plan():
            size, then = self._queue.popleft()
            seconds = self._seconds(size, cores)
            self._slots -= 1
            self._idle -= cores
            self._clock.after(seconds, partial(self._end, cores, seconds, then))

    def _plan(self) -> list[int]:
        if self._elastic is None:
            return [1] * min(len(self._queue), self._slots, self._idle)
        busy = self._cores - self._idle
        return self._elastic.begin(len(self._queue), self._slots, self._cores, busy, self._clock.now)

    def _end(self, cores: int, seconds: float, then: Callable[[], None]) -> None:
        self._slots += 1
        self._idle += cores
        if self._elastic is not None:
            self._elastic.add(cores, seconds)
        self._begin()
        then()


@dataclass
class Run:
    """Plays its rounds one after another, the trajectories of each side by side."""

    clock: Clock
    resource: Resource
    rounds: Sequence[Round]
    actions_s: list[float] = field(default_factory=list)
    rounds_s: list[float] = field(default_factory=list)

    def begin(self) -> None:
        """Begins the next round, if there is one."""
        if len(self.rounds_s) < len(self.rounds):
            trajectories = self.rounds[len(self.rounds_s)]
            self._began, self._playing = self.clock.now, len(trajectories)
            for trajectory in trajectories:
                self._think(trajectory, 0)

    def _think(self, trajectory: Trajectory, step: int) -> None:
        if step < len(trajectory.sizes):
            self.clock.after(trajectory.thinks_s[step], lambda: self._ask(trajectory, step))
            return
        self._playing -= 1
        if not self._playing:
            self.rounds_s.append(self.clock.now - self._began)
            self.begin()

    def _ask(self, trajectory: Trajectory, step: int) -> None:
        called = self.clock.now

        def answered() -> None:
            self.actions_s.append(self.clock.now - called)
            self._think(trajectory, step + 1)

        self.resource.ask(trajectory.sizes[step], answered)


def shared(runs: Sequence[Sequence[Round]], make: Callable[[Clock], Resource]) -> Predicted:
    """All runs, by their rounds, ask one resource."""
    clock = Clock()
    resource = make(clock)
    playing = [Run(clock, resource, rounds) for rounds in runs]
    for run in playing:
        run.begin()
    clock.run()
    return _over(playing)


def split(runs: Sequence[Sequence[Round]], slots: Sequence[int]) -> Predicted:
    """Each run has a separate resource, with its part of the slots."""
    playing = []
    for rounds, own in zip(runs, slots, strict=True):
        clock = Clock()
        playing.append(Run(clock, Resource(clock, own), rounds))
        playing[-1].begin()
        clock.run()
    return _over(playing)


def reserved(rounds: Sequence[Round], slots: int) -> Predicted:
    """Each trajectory has a slot from its start to its end. Its first action includes the wait for the slot."""
    rounds_s, actions_s = [], []
    for trajectories in rounds:
        lasts_s = [sum(trajectory.thinks_s) + sum(trajectory.sizes) for trajectory in trajectories]
        ends = ends_s(lasts_s, slots)
        rounds_s.append(max(ends))
        for trajectory, end, seconds in zip(trajectories, ends, lasts_s, strict=True):
            actions_s += [end - seconds + trajectory.sizes[0], *trajectory.sizes[1:]]
    return Predicted(mean(actions_s), mean(rounds_s))


def _over(runs: Sequence[Run]) -> Predicted:
    return Predicted(
        mean(seconds for run in runs for seconds in run.actions_s),
        mean(seconds for run in runs for seconds in run.rounds_s),
    )
