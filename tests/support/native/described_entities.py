"""Descriptions of entities, and observations without some of them."""

import numpy as np

from marless.functions.environments.entities.description import Entities, EntityBlock, columns_of

ABSENT = 0.5


def described(own, *blocks, order=None, first_action=None):
    """Some own numbers, and blocks of a count of entities, a number of features, and whether entities may be absent.

    Columns are in the given order. Actions name the entities of the last block if there is a first action.
    """
    start, made = own, []
    size = own + sum(count * features for count, features, _ in blocks)
    order = np.arange(size) if order is None else np.asarray(order)
    for name, (count, features, can_be_absent) in enumerate(blocks):
        columns = order[np.array(columns_of(count, (start, features)))].tolist()
        absent = (ABSENT,) * features * can_be_absent
        first = first_action if name + 1 == len(blocks) else None
        made.append(EntityBlock(str(name), tuple(map(tuple, columns)), absent=absent, first_action=first))
        start += count * features
    return Entities.of(size, *made)


def without_some(entities, rows, rng):
    """Return the rows without a third of the entities that can be absent."""
    for block in entities.blocks:
        for columns in block.columns if block.absent else ():
            rows[np.ix_(rng.random(len(rows)) < 0.3, columns)] = ABSENT
    return rows
