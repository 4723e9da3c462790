from my_task import make

from functions.environments.base import EnvTask
from functions.environments.conformance import check


def test_it_keeps_the_promises_of_an_environment():
    check(lambda num_envs: make(EnvTask(name="my_task"), num_envs))
