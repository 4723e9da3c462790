"""The ranges of entities' features in play, which show some wrong descriptions of entities."""

import numpy as np

from marless.functions.environments.base import FloatArray
from marless.functions.environments.entities.description import EntityBlock


class EntityRanges:
    """The lowest and the highest number of each feature of a block's entities.

    In many episodes, equal entities have similar numbers. So ranges that do not overlap are a sign of wrong columns.
    Ranges that overlap prove nothing. A proof needs two states with exchanged entities, and the interface of
    environments has no call that exchanges entities.
    """

    def __init__(self, block: EntityBlock) -> None:
        self._name, self._columns = block.name, np.array(block.columns, np.intp)
        self._absent = np.array(block.absent, np.float32)
        self._low, self._high = np.full(self._columns.shape, np.inf), np.full(self._columns.shape, -np.inf)

    def look(self, rows: FloatArray) -> None:
        """Enter observations ``[rows, columns]``. Absent entities do not count."""
        values = rows[:, self._columns]
        absent = (values == self._absent).all(axis=-1, keepdims=True) if self._absent.size else np.False_
        self._low = np.minimum(self._low, np.where(absent, np.inf, values).min(axis=0, initial=np.inf))
        self._high = np.maximum(self._high, np.where(absent, -np.inf, values).max(axis=0, initial=-np.inf))

    def difference(self) -> str:
        """Return a sentence about the first two entities with separate ranges, or ''."""
        present = np.isfinite(self._low).all(axis=1)
        columns, low, high = self._columns[present], self._low[present], self._high[present]
        for feature in range(columns.shape[1]) if len(columns) else ():
            pair = int(high[:, feature].argmin()), int(low[:, feature].argmax())
            if low[pair[1], feature] > high[pair[0], feature]:
                places = ((columns[i, feature], low[i, feature], high[i, feature]) for i in pair)
                ranges = (f"column {column} is from {least:.4g} to {most:.4g}" for column, least, most in places)
                return f"entities '{self._name}': {', and '.join(ranges)}. Equal entities have similar numbers"
        return ""
