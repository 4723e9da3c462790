"""Where a round runs: the placement that the state keeps for it."""

from coordinator.placement.placement_rules import PLACEMENTS, Packs
from functions.contract import Message


class RoundPlacement(Message, frozen=True, kw_only=True):
    """How a round is spread over invocations.

    `rounds`: how many rounds one task of `whole` runs; other rules ignore it. `inline_objects`: objects are sent inside
    messages and stored at checkpoints only, every `checkpoint_every` rounds. `memory_mb` by name of function; other
    functions have the configured size. `packs`: the groups that learn together, of `balanced`.
    """

    rule: str
    rollouts_per_invocation: int
    rounds: int = 1
    inline_objects: bool = False
    checkpoint_every: int
    memory_mb: dict[str, int]
    packs: Packs = ()

    @property
    def rounds_per_task(self) -> int:
        """Rounds per task."""
        return self.rounds if PLACEMENTS[self.rule].one_function else 1

    @property
    def style(self) -> str:
        """The part of the placement that durations depend on, besides the kind and the size of a task."""
        return f"{self.rule}+inline" if self.inline_objects else self.rule
