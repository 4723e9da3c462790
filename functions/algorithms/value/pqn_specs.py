"""PQN as the coordinator knows it: settings, stages, its network and its size."""

from typing import Annotated, Literal

from msgspec import Meta

from marless.functions.algorithms import specification
from marless.functions.algorithms.value.specs import epsilon_greedy, utility_network
from marless.functions.environments.base import EnvSpec
from marless.functions.messages.actor import Behaviour
from marless.functions.messages.team import Team
from marless.functions.setting_limits import MOST_ENV_STEPS

PARTS = ("policy", "policy_optimiser")


class PqnConfig(specification.DiscountedConfig, frozen=True, kw_only=True, tag_field="name", tag="pqn"):
    """Parallel Q-learning.

    Attributes:
        decomposition: the value of a side is the sum of its agents' values (sum), or each agent learns alone (none)
        reward: the agent's reward (own), or the sum over its side (team). With decomposition=sum it is always the sum
        td_lambda: weight of longer returns in a target (λ of Peng's Q(λ)). Higher passes late rewards back faster, but
            is noisier
        epsilon_start: chance of a random action at the beginning. Higher explores more
        epsilon_end: chance of a random action at the end. Higher explores more
        epsilon_steps: environment steps from epsilon_start to epsilon_end. Higher explores for longer
        layer_norm: normalise the hidden layers (LayerNorm). Values are then stable without target networks
    """

    lr: specification.LearningRate = 2e-3
    td_lambda: Annotated[float, Meta(ge=0, le=1)] = 0.5
    decomposition: Literal["sum", "none"] = "sum"
    reward: specification.RewardName = "team"
    epochs: specification.Epochs = 4
    num_minibatches: specification.Minibatches = 16
    epsilon_start: Annotated[float, Meta(ge=0, le=1)] = 1.0
    epsilon_end: Annotated[float, Meta(ge=0, le=1)] = 0.05
    epsilon_steps: Annotated[int, Meta(ge=1, le=MOST_ENV_STEPS)] = 50_000
    max_grad_norm: specification.GradientNorm = 10.0
    adam_eps: specification.AdamEpsilon = 1e-5
    hidden: specification.HiddenWidths = (128, 128)
    layer_norm: bool = True
    time_limit: specification.TimeLimit = "bootstrap"

    @property
    def shares_networks(self) -> bool:
        """See `AlgorithmConfig`."""
        return True

    @property
    def recurrent(self) -> bool:
        """Return whether networks have a memory."""
        return False

    def behaviour(self, env_steps: int) -> Behaviour:
        """See `AlgorithmConfig`."""
        return epsilon_greedy(self, env_steps)


def part_bytes(spec: EnvSpec, team: Team, config: PqnConfig, group: int) -> dict[str, int]:
    """The bytes of network and moments. Raises `BadRequest` for unsupported actions."""
    if config.has_factory:
        return {}  # which only its factory knows
    return specification.trained_bytes("policy", utility_network(spec, team, config, group).parameters)


PQN = specification.AlgorithmSpec(
    "pqn",
    PqnConfig,
    (
        specification.StageSpec("value", (), "group", reads=("policy",), writes=()),
        specification.StageSpec("target", ("value",), "team", reads=(), writes=(), couples=True),
        specification.StageSpec("policy", ("target",), "group", PARTS, PARTS),
    ),
    PARTS,
    "marless.functions.algorithms.value.pqn",
    part_bytes=part_bytes,
)
