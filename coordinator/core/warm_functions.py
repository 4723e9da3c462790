"""What warm functions have kept, by the model of the bill: reads of it are not billed, all others are.

Every invocation of a wave has an execution environment of its own, the i-th of every wave the same one, and none ends
before the run does. An environment keeps what deployed functions keep (`marless.functions.warm_cache`): the run's
dataset, if it fits, and its replay buffer. How many processes serve a run here, and what else they do, does not enter,
so the bill is the same everywhere; docs/decisions/0021 compares the model with what AWS may do.
"""

from msgspec.structs import replace

from marless.coordinator.core.state import Plan, State
from marless.functions.messages.learner import Past, past_objects
from marless.functions.messages.usage import Usage
from marless.functions.warm_cache import share_of

NOTHING = Usage()


def kept_dataset(plan: Plan, state: State, function: str, number: int, memory_mb: int) -> Usage:
    """The hit of a task that reads the run's dataset in the environment `number` of its function, or no hit."""
    if plan.inputs.dataset is None or number >= len(state.served.get(function, ())):
        return NOTHING
    size = plan.inputs.dataset.size
    return Usage(hits=1, hit_bytes=size) if size <= share_of(memory_mb) else NOTHING


def kept_past(state: State, number: int, past: tuple[Past, ...]) -> Usage:
    """The hits of a learner's task in the rounds of its replay buffer, in the learner's environment `number`."""
    newest_rounds = state.served.get("learner", ())
    if number >= len(newest_rounds) or not past:
        return NOTHING
    held_refs = past_objects(tuple(round_ for round_ in past if round_.round <= newest_rounds[number]))
    return Usage(hits=len(held_refs), hit_bytes=sum(ref.size for ref in held_refs))


def served_by(state: State, function: str, environments: int, newest: int) -> dict[str, tuple[int, ...]]:
    """`State.served` after so many environments of a function have kept the rounds up to `newest`."""
    return {**state.served, function: (newest,) * environments + state.served.get(function, ())[environments:]}


def keeps(plan: Plan) -> bool:
    """Whether functions keep anything of the run."""
    return plan.inputs.dataset is not None or plan.config.algorithm.replayed_steps > 0


def billed(usage: Usage, expected_hits: Usage, attempt: int) -> Usage:
    """The storage operations of an attempt on the bill; `expected_hits` as in `WorkItem`.

    An attempt that was refused, or found its task's answer, has not read all that its request names.
    """
    cold = usage.cold
    if cold.gets < expected_hits.hits + (attempt > 0):
        return cold
    read = max(0, cold.bytes_read - expected_hits.hit_bytes)
    return replace(cold, gets=cold.gets - expected_hits.hits, bytes_read=read)
