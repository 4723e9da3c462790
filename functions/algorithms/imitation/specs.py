"""Behaviour cloning as the coordinator knows it: settings, stages, its network and its size."""

from marless.functions.algorithms import specification
from marless.functions.algorithms.agent_inputs import described, members, over_entities
from marless.functions.environments.base import EnvSpec
from marless.functions.messages.team import Team
from marless.functions.nn.layers import LayerNorm
from marless.functions.nn.shape import Network

PARTS = ("policy", "policy_optimiser")


class BcConfig(specification.NetworkConfig, frozen=True, kw_only=True, tag_field="name", tag="bc"):
    """Behaviour cloning."""

    lr: specification.LearningRate = 1e-3
    epochs: specification.Epochs = 1
    num_minibatches: specification.Minibatches = 8
    max_grad_norm: specification.GradientNorm = 10.0
    adam_eps: specification.AdamEpsilon = 1e-5
    hidden: specification.HiddenWidths = (64, 64)
    recurrent: bool = False
    data_chunk_length: specification.ChunkLength = 10
    layer_norm: bool = False


def policy_network(spec: EnvSpec, team: Team, config: BcConfig, group: int) -> Network:
    """The group's policy."""
    kind = spec.classes[spec.class_of[members(team, group)[0]]]
    width = kind.observation_size + (len(spec.agents) if team.identity else 0)
    norm = LayerNorm if config.layer_norm else None
    network = Network((width, *config.hidden, kind.actions), config.recurrent, norm=norm)
    return over_entities(config, network, described(config, kind))


def part_bytes(spec: EnvSpec, team: Team, config: BcConfig, group: int) -> dict[str, int]:
    """The bytes of network and moments."""
    if config.has_factory:
        return {}  # which only its factory knows
    return specification.trained_bytes("policy", policy_network(spec, team, config, group).parameters)


BC = specification.AlgorithmSpec(
    "bc",
    BcConfig,
    (specification.StageSpec("policy", (), "group", PARTS, PARTS),),
    PARTS,
    "marless.functions.algorithms.imitation.bc",
    part_bytes=part_bytes,
    member_rows=True,
    imitates=True,
)
