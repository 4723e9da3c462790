"""Where a round runs: the choice that a placement rule leaves open, as one value that the state keeps."""

from coordinator.placement.rules import PLACEMENTS
from functions.contract import Message


class RoundPlacement(Message, frozen=True, kw_only=True):
    """How a round is spread over invocations.

    `rounds`: how many one task of `whole` runs; other rules take no notice of it. `inline_objects`: objects travel
    inside messages and are stored at checkpoints only, every `checkpoint_every` rounds. `memory_mb`: megabytes by name
    of function; a function that is not named has what the user set.
    """

    rule: str
    rollouts_per_invocation: int
    rounds: int = 1
    inline_objects: bool = False
    checkpoint_every: int
    memory_mb: dict[str, int]

    @property
    def together(self) -> int:
        """Rounds in one go."""
        return self.rounds if PLACEMENTS[self.rule].one_function else 1

    @property
    def style(self) -> str:
        """What durations depend on, beside the kind and the size of a task."""
        return f"{self.rule}+inline" if self.inline_objects else self.rule
