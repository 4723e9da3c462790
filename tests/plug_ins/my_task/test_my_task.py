from my_task import make

from marless.environments import EnvTask, check


def test_it_keeps_the_promises_of_an_environment():
    check(lambda num_envs: make(EnvTask(name="my_task"), num_envs))
