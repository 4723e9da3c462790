"""The orchard of the tutorial, with other descriptions of its entities."""

from orchard import Orchard

# The fields of the description that each fault changes: its own, or of its block of wasps.
FAULTS = {
    "twice": {"own": [0, 1, 2]},
    "missing": {"own": [0]},
    "beyond": {"own": [0, 1, 22]},
    "origin": {"origin": [2, 3]},
    "unknown": {"colour": "red"},
    "text": {"own": "all"},
    "uneven": {"columns": [[6, 7, 8], [9]]},
    "position": {"position": [0, 2]},
    "absent": {"absent": [0]},
    "name": {"name": "fruit"},
}


def make(fault="", by_agent=False):
    """An orchard with a fault in the description, or with different descriptions by agent."""
    environment = Orchard()
    entities = environment.entities
    teammate, wasp, fruit = entities["blocks"]
    changes = FAULTS.get(fault, {})
    if {*changes} <= {*wasp, "absent"}:
        entities = entities | {"blocks": [teammate, wasp | changes, fruit]}
    else:
        entities = entities | changes
    environment.entities = entities
    if by_agent:
        named = {"own": [0, 1, 6, 7, 8, 9], "blocks": [teammate, fruit]}
        environment.entities = {"picker_0": entities, "picker_1": named}
    return environment
