"""Multi-agent PPO: policies see their agent's observation, critics see the state of the whole team.

Yu et al., "The Surprising Effectiveness of PPO in Cooperative Multi-Agent Games", NeurIPS D&B 2022. The stages are in
`ppo.py`; MAPPO only adds the centralised critic's inputs.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta

from functions.algorithms.ppo.diagnostics import PPO_SUMMARIES
from functions.algorithms.ppo.merge import Merging
from functions.algorithms.ppo.ppo import PPO_PARTS, PPO_STAGES, CriticView, Ppo, PpoConfig
from functions.algorithms.rows import agent_state, agent_state_width, state_width, team_state
from functions.algorithms.specification import AlgorithmSpec

CriticInput = Literal["state", "state+observation"]
TEAM = CriticView(state_width, team_state)
_VIEWS: Mapping[CriticInput, CriticView] = {
    "state": TEAM,
    "state+observation": CriticView(agent_state_width, agent_state),
}


class CentralisedConfig(PpoConfig, frozen=True, kw_only=True):
    """The settings of PPO with centralised critics."""

    critic_input: Annotated[
        CriticInput, Meta(description="what a critic sees: the team's state, or with it its own agent's observation")
    ] = "state"

    def critic_view(self, view: CriticView) -> CriticView:
        """See `PpoConfig`."""
        return _VIEWS[self.critic_input]


class MappoConfig(CentralisedConfig, frozen=True, kw_only=True, tag_field="name", tag="mappo"):
    """PPO with a centralised critic."""


_PPO = Ppo(TEAM)
STAGES, SUMMARIES, initialise = _PPO.stages, PPO_SUMMARIES, _PPO.initialise
merge = Merging(TEAM).merge
SPEC = AlgorithmSpec(
    "mappo",
    MappoConfig,
    PPO_STAGES,
    PPO_PARTS,
    __name__,
    tuple(PPO_SUMMARIES),
    part_bytes=_PPO.part_bytes,
    member_rows=True,
)
