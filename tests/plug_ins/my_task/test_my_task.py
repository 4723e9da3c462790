from my_task import make

from functions.environments.base import Task
from functions.environments.conformance import check


def test_it_keeps_the_promises_of_an_environment():
    check(lambda copies: make(Task(name="my_task"), copies))
