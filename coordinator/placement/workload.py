"""The work of a round, whatever its placement."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from marless.coordinator.placement.placement_rules import Packs
from marless.functions.algorithms.specification import StageSpec


@dataclass(frozen=True)
class Workload:
    """The work of a round, independent of its placement.

    `members[group]` of the `agents` learn in a group. A rollout has `rollout_steps` environment steps and ends
    `rollout_episodes` episodes. For `most_rounds` rounds no rule reads their results and no evaluation is due. Bytes:
    `rollout_bytes` of a rollout's trajectory, `policy_bytes` of all groups' policies, `learner_bytes` of the rest of
    their state, `tensor_bytes` of all tensors that stages pass on within a round, `sums_bytes` of all groups' sums over
    a micro-batch (None if no task sums), `ledger_bytes` of the run's item, `table_bytes` of all tables that learners
    report in a round. `width` functions run at once. `regroups`: the round may end with another team. `replays`:
    trajectories are stored for later rounds; learners count as warm, so that they read only new ones. `packs`: the
    groups as `balanced` packs them. `unfinished_bytes` of a rollout's episodes continue in the next round; 0 if all
    end. `opponent_reads`: the most objects with policies of one checkpoint of a league, whose rollouts are played by
    actors, each alone; None without a league. `lag`: how many rounds before it a round learns from; with 1 or more
    learners begin beside the actors.
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
    sums_bytes: float | None = None
    table_bytes: float = 0.0
    rollout_episodes: int = 0
    regroups: bool = False
    replays: bool = False
    packs: Packs = ()
    unfinished_bytes: float = 0.0
    opponent_reads: int | None = None
    lag: int = 0
