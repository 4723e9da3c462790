"""Which objects a task reads: the references in its request, and nothing else.

Whoever counts, sends along or plans reads takes them from here: the bill, the cap, estimates, the planner of the pool.
"""

from collections.abc import Iterator

from functions.contract import Past, Recorded, Ref, Request


def references(request: Request) -> Iterator[tuple[Ref, ...]]:
    """The objects that a task reads, field by field; one that stands in two fields is read twice."""
    for name in request.__struct_fields__:
        value = getattr(request, name)
        if isinstance(value, Recorded):
            yield (value.dataset,)
        elif isinstance(value, tuple) and value and isinstance(value[0], Ref):
            yield value
        elif isinstance(value, tuple) and value and isinstance(value[0], Past):
            yield past_objects(value)


def past_objects(rounds: tuple[Past, ...]) -> tuple[Ref, ...]:
    """The objects with the trajectories of earlier rounds; one may hold several rounds."""
    return tuple({ref.key: ref for round_ in rounds for ref in round_.trajectories}.values())


def most_reads(request: Request) -> int:
    """How many objects a task reads if none of them is in its message and nothing is kept."""
    return sum(map(len, references(request)))


def read_from_storage(request: Request) -> Iterator[Ref]:
    """The objects that a task reads from storage if nothing is kept: all that its message does not hold."""
    return (ref for refs in references(request) for ref in refs if ref.key not in request.inlined)
