"""Independent PPO: policies and critics see their agent's observation.

De Witt et al., "Is Independent Learning All You Need in the StarCraft Multi-Agent Challenge?", 2020. The stages are in
`ppo.py`. IPPO only adds the independent critic's inputs.
"""

from marless.functions.algorithms.ppo.gradient_sums import GradientSums
from marless.functions.algorithms.ppo.merge import Merging
from marless.functions.algorithms.ppo.policy_summaries import PPO_SUMMARIES
from marless.functions.algorithms.ppo.ppo import Ppo
from marless.functions.algorithms.ppo.specs import OWN

_PPO = Ppo(OWN)
_SUMS = GradientSums(_PPO)
STAGES, SUMMARIES, initialise = _PPO.stages, PPO_SUMMARIES, _PPO.initialise
PARTIAL, FOLDS = _SUMS.partial, _SUMS.folds
merge = Merging(OWN).merge
