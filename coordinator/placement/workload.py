"""The work of a round, whatever its placement."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from marless.coordinator.placement.placement_rules import Packs
from marless.functions.algorithms.specification import StageSpec


class Summing(NamedTuple):
    """The `rollouts` of a micro-batch, the `stage` that sums over one, and the `bytes` of all groups' sums over it."""

    rollouts: int
    stage: StageSpec
    bytes: float


@dataclass(frozen=True)
class Workload:
    """The work of a round, independent of its placement.

    `members[group]` of the `agents` learn in a group. A rollout has `rollout_steps` environment steps and ends
    `rollout_episodes` episodes. For `most_rounds` rounds no rule reads their results and no evaluation is due. Bytes:
    `rollout_bytes` of a rollout's trajectory, `policy_bytes` of all groups' policies, `learner_bytes` of the rest of
    their state, `tensor_bytes` of all tensors that stages pass on within a round, `ledger_bytes` of the run's item,
    `table_bytes` of all tables that learners report in a round. `width` functions run at once. `regroups`: the round
    may end with another team. The stages run `updates` times. `replays`: trajectories are stored for later rounds;
    learners count as warm, so that they read only new ones. `packs`: the groups as `balanced` packs them.
    `member_rows`: every group learns from as many rows as one agent has. `unfinished_bytes` of a rollout's episodes go
    on in the next round; 0 where all end. `recorded`: rollouts are not played, so that actors read no policies.
    `input_reads`: how many other objects every task that samples reads. `opponent_reads`: the most objects with
    policies of one checkpoint of a league, whose rollouts are played by actors, each alone; None without a league.
    `lag`: how many rounds before it a round learns from; with 1 or more learners begin beside the actors.
    `summing`: how it is summed part by part; None where it is not. `base_bytes`: the object that every learner reads
    besides, because its networks are differences to what it holds; 0 where there is none.
    """

    agents: int
    members: Mapping[int, int]
    stages: Sequence[StageSpec]
    rollouts: int
    rollout_steps: int
    most_rounds: int
    rollout_bytes: float
    policy_bytes: float
    learner_bytes: float
    ledger_bytes: int
    width: int
    tensor_bytes: float = 0.0
    table_bytes: float = 0.0
    rollout_episodes: int = 0
    regroups: bool = False
    updates: int = 1
    replays: bool = False
    packs: Packs = ()
    member_rows: bool = False
    unfinished_bytes: float = 0.0
    recorded: bool = False
    input_reads: int = 0
    opponent_reads: int | None = None
    lag: int = 0
    summing: Summing | None = None
    base_bytes: float = 0.0

    def agents_learned_from(self, groups: Sequence[int]) -> int:
        """How many agents' rows the groups learn from."""
        return len(groups) if self.member_rows else sum(self.members[group] for group in groups)

    def with_base(self, reads: int, read_bytes: float) -> tuple[int, float]:
        """What a learner reads besides so many objects of so many bytes, and these."""
        return reads + (self.base_bytes > 0), read_bytes + self.base_bytes
