"""Multi-agent PPO: policies see their agent's observation, critics see the state of the whole team.

Yu et al., "The Surprising Effectiveness of PPO in Cooperative Multi-Agent Games", NeurIPS D&B 2022. The stages are in
`ppo.py`. MAPPO only adds the centralised critic's inputs.
"""

from marless.functions.algorithms.ppo.gradient_sums import GradientSums
from marless.functions.algorithms.ppo.merge import Merging
from marless.functions.algorithms.ppo.policy_summaries import PPO_SUMMARIES
from marless.functions.algorithms.ppo.ppo import Ppo
from marless.functions.algorithms.ppo.specs import TEAM

_PPO = Ppo(TEAM)
_SUMS = GradientSums(_PPO)
STAGES, SUMMARIES, initialise = _PPO.stages, PPO_SUMMARIES, _PPO.initialise
PARTIAL, FOLDS = _SUMS.partial, _SUMS.folds
merge = Merging(TEAM).merge
