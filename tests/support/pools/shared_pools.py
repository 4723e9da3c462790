"""Worker processes that the runs of many tests share, like the workers of a study: they start once."""

from functools import cache
from itertools import count

from marless.backends import local
from marless.backends.base import FUNCTION_MODULES
from marless.infra.local.dispatch import Capacity
from marless.infra.local.task_pool import TaskPool


class SharedPools:
    """A pool of each width that is asked for, with its logs below `folder`. A run on one worker is in this process."""

    def __init__(self, folder):
        self._folder, self._numbers = folder, count()
        self._pool = cache(self._started)
        self._pools = []

    def back_end(self, folder, workers):
        """The connection of the run in `folder`, as `Backend.open` makes it."""
        if workers == 1:
            return local.BACKEND.open(folder, 1)
        lane = self._pool(workers).lane(f"{next(self._numbers)}", folder / local.OBJECTS)
        return local.BACKEND.attach(folder, lane, workers)

    def close(self):
        for pool in self._pools:
            pool.close()

    def _started(self, workers):
        pool = TaskPool(Capacity(workers, workers), FUNCTION_MODULES, self._folder / f"{workers}")
        self._pools.append(pool)
        return pool
