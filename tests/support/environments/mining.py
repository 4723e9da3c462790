"""The task of the guides as a PettingZoo environment: `pettingzoo:mining:parallel_env`.

A scout and two diggers with different spaces. A digger must not dig twice in one cell, and runs out of food.
"""

import my_task

from marless.functions.environments.base import EnvTask
from marless.functions.environments.pettingzoo.parallel_view import ParallelView


def parallel_env():
    task = EnvTask(name="my_task")
    return ParallelView(my_task.make(task, 1), task)
