"""The description of the entities that an observation shows: the agent itself, and blocks of equal entities.

Equal entities are interchangeable: the same observation with two of them exchanged describes the same situation. An
entity that an action or a message names by its number needs a separate block, because its place has a meaning. One
block may say which actions name its entities (`first_action`). Then actions are exchanged with them.
"""

from collections import Counter

import msgspec


class EntityBlock(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Equal entities, such as landmarks, teammates, opponents or food."""

    name: str
    # The columns of an observation that describe each entity, feature by feature.
    columns: tuple[tuple[int, ...], ...]
    # The features that are an entity's position, see `Entities.origin`.
    position: tuple[int, ...] = ()
    # The features that the environment writes for an absent entity (dead, hidden, gathered). Empty if all are always
    # present.
    absent: tuple[float, ...] = ()
    # Whether the entities are the agent's teammates.
    teammates: bool = False
    # The action that names the first entity. The next actions name the next ones, and no action is behind them. None
    # for a block without such actions.
    first_action: int | None = None

    @property
    def features(self) -> int:
        """The number of features of an entity."""
        return len(self.columns[0]) if self.columns else 0


class Entities(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The entities in an observation. Each column belongs to the agent itself or to one entity."""

    own: tuple[int, ...]
    blocks: tuple[EntityBlock, ...]
    # The columns of the agent's own position, if positions of entities are measured from the same point as it. Empty
    # if they are relative to the agent.
    origin: tuple[int, ...] = ()

    @classmethod
    def of(cls, size: int, *blocks: EntityBlock, origin: tuple[int, ...] = ()) -> "Entities":
        """Return the entities in an observation of `size` numbers. Columns in no block are the agent's own.

        Blocks without entities are left out.
        """
        columns = {column for block in blocks for entity in block.columns for column in entity}
        rest = tuple(column for column in range(size) if column not in columns)
        return cls(rest, tuple(block for block in blocks if block.columns), origin)

    @property
    def size(self) -> int:
        """The number of columns."""
        return len(self.own) + sum(len(block.columns) * block.features for block in self.blocks)

    @property
    def names(self) -> str:
        """The kinds of entities, with the number of features of each, for messages."""
        return ", ".join([f"itself ({len(self.own)})", *(f"{block.name} ({block.features})" for block in self.blocks)])

    @property
    def named_block(self) -> EntityBlock | None:
        """The block of the entities that actions name."""
        return next((block for block in self.blocks if block.first_action is not None), None)

    def is_like(self, other: "Entities") -> bool:
        """Return True if the other description has the same kinds of entities, in any number."""
        forms = [
            (len(entities.own), [(block.name, block.features, block.first_action) for block in entities.blocks])
            for entities in (self, other)
        ]
        return forms[0] == forms[1]

    def fault(self, size: int) -> str:
        """Return the reason why this cannot describe an observation of `size` numbers, or ''."""
        if fault := self._fault_of_columns(size):
            return fault
        if len({block.name for block in self.blocks}) < len(self.blocks):
            return "two blocks have the same name"
        if not {*self.origin} <= {*self.own}:
            return "origin holds a column that own lacks"
        if sum(block.first_action is not None for block in self.blocks) > 1:
            return "two blocks have a first_action. Actions can name the entities of one block"
        return next(filter(None, map(self._fault_of_block, self.blocks)), "")

    def _fault_of_columns(self, size: int) -> str:
        columns = Counter([*self.own, *(i for block in self.blocks for entity in block.columns for i in entity)])
        if outside := sorted(columns.keys() - {*range(size)}):
            return f"column {outside[0]} does not exist. An observation has the columns 0 to {size - 1}"
        if missing := sorted({*range(size)} - columns.keys()):
            return f"column {missing[0]} is missing. Add it to own or to an entity of a block"
        column, times = max(columns.items(), key=lambda item: item[1])
        return f"column {column} is listed {times} times. A column belongs to own or to one entity" if times > 1 else ""

    def _fault_of_block(self, block: EntityBlock) -> str:
        if {len(entity) for entity in block.columns} != {block.features} or block.features == 0:
            return f"block '{block.name}' is empty, or its entities have different numbers of features"
        if not {*block.position} <= {*range(block.features)}:
            return f"block '{block.name}': position holds a number outside 0 to {block.features - 1}"
        if block.absent and len(block.absent) != block.features:
            return f"block '{block.name}': absent has {len(block.absent)} numbers for {block.features} features"
        if self.origin and block.position and len(self.origin) != len(block.position):
            return f"block '{block.name}': position has {len(block.position)} coordinates, origin {len(self.origin)}"
        return ""


def columns_of(count: int, *parts: tuple[int, int]) -> tuple[tuple[int, ...], ...]:
    """Return the columns of `count` equal entities.

    A part `(first, width)` starts at column `first` and holds `width` numbers of each entity, one entity after another.
    """
    return tuple(
        tuple(column for first, width in parts for column in range(first + i * width, first + (i + 1) * width))
        for i in range(count)
    )
