"""Descriptions of the entities that agents of the Multi-Particle Environments see."""

from marless.functions.environments.entities.description import EntityBlock, columns_of


def bodies(
    name: str, count: int, *parts: tuple[int, int], teammates: bool = False, hidden: bool = False
) -> EntityBlock:
    """Return `count` equal bodies. Their first two features are the position relative to the agent.

    `parts` are described in `columns_of`. Features of a body are zeros while it is `hidden`, if it can be.
    """
    width = sum(part_width for _, part_width in parts)
    return EntityBlock(name, columns_of(count, *parts), (0, 1), (0.0,) * (width * hidden), teammates)
