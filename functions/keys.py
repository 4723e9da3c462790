"""Names of objects, tasks and groups. No other module builds them."""

from collections.abc import Iterable

OBJECT_SUFFIX = ".safetensors"
ANSWERS = "answers/"
"""What resources answered, where a run keeps that."""
ACTIONS = "actions"
"""The kind of the object with a task's calls of resources, see `marless.functions.resources.call_meter`."""

REWARD_SUMS = "team_reward"
"""Sums of a model of rewards, in tensor names. Processors round them differently, so hashes of weights lack them."""


def round_prefix(round_: int) -> str:
    """The folder of a round's objects."""
    return f"rounds/{round_:06d}"


def of_rounds(keys: Iterable[str]) -> bool:
    """Return whether a round's object is among the keys, in addition to a run's inputs."""
    return any(key.split("/")[1].isdecimal() for key in keys)


def round_name(round_: int) -> str:
    """A round's name inside tensor names."""
    return f"r{round_:06d}"


def task_id(run: str, round_: int, work: str) -> str:
    """A task's address, the same for every attempt."""
    return f"{run}/{round_:06d}/{work}"


def output_prefix(round_: int, work: str) -> str:
    """The key prefix of a task's objects. The kind follows."""
    return f"{round_prefix(round_)}/{work}"


def object_key(output: str, kind: str) -> str:
    """Return the key of an object of one kind. For a task's objects, `messages.exchange.Done` lists all kinds but
    `reply`. A run's inputs are `policies`, `dataset` or, for a base, `learner`."""
    return f"{output}.{kind}{OBJECT_SUFFIX}"


def is_made_by(task: str, kind: str, key: str) -> bool:
    """Return whether the task with this id can have made an object of that kind under this key. A task of whole rounds
    adds their number to the key."""
    output = f"rounds/{task.partition('/')[2]}"
    rounds = key.removeprefix(output).removesuffix(object_key("", kind)).removeprefix("-")
    names = (output, f"{output}-{rounds}") if rounds.isdecimal() else (output,)
    return kind.isidentifier() and key in (object_key(name, kind) for name in names)


def answer_key(question: str) -> str:
    """The key of a resource's answer to a question, which is given by its hash."""
    return f"{ANSWERS}{question}"


def rollouts_name(rollouts: tuple[int, ...]) -> str:
    """The name of consecutive rollouts, first to last."""
    return f"{rollouts[0]:05d}-{rollouts[-1]:05d}"


def group_name(group: int) -> str:
    """A group's name inside tensor names. Two digits sort up to a hundred groups."""
    return f"g{group:02d}"


def agent_name(agent: int) -> str:
    """An agent's name inside names of tables."""
    return f"a{agent:02d}"
