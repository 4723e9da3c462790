"""Behaviour cloning as the coordinator knows it: settings, stages, its network and its size."""

from typing import Annotated

from msgspec import Meta

from functions.algorithms.groups import members
from functions.algorithms.specification import AlgorithmSpec, NetworkConfig, StageSpec, Width, trained_bytes
from functions.environments.base import EnvSpec
from functions.messages.team import Team
from functions.nn.layers import LayerNorm
from functions.nn.shape import Network
from functions.setting_limits import LARGEST, LARGEST_STEP, MOST_EPOCHS, MOST_LAYERS, MOST_STEPS, MOST_UPDATES

PARTS = ("policy", "policy_optimiser")


class BcConfig(NetworkConfig, frozen=True, kw_only=True, tag_field="name", tag="bc"):
    """Behaviour cloning."""

    lr: Annotated[float, Meta(gt=0, le=LARGEST_STEP, description="Adam's step")] = 1e-3
    epochs: Annotated[int, Meta(ge=1, le=MOST_EPOCHS, description="passes over the round's data")] = 1
    num_minibatches: Annotated[int, Meta(ge=1, le=MOST_UPDATES, description="optimiser steps per pass")] = 8
    max_grad_norm: Annotated[float, Meta(gt=0, le=LARGEST, description="cap on each network's gradient norm")] = 10.0
    adam_eps: Annotated[float, Meta(gt=0, le=LARGEST, description="Adam's denominator guard")] = 1e-5
    hidden: Annotated[
        tuple[Width, ...], Meta(min_length=1, max_length=MOST_LAYERS, description="widths of the hidden layers")
    ] = (64, 64)
    recurrent: Annotated[bool, Meta(description="the last hidden layer is recurrent (a GRU)")] = False
    data_chunk_length: Annotated[
        int, Meta(ge=1, le=MOST_STEPS, description="steps that a recurrent network's gradients go back through")
    ] = 10
    layer_norm: Annotated[bool, Meta(description="hidden layers are normalised (LayerNorm)")] = False


def policy_network(spec: EnvSpec, team: Team, config: BcConfig, group: int) -> Network:
    """The group's policy."""
    kind = spec.classes[spec.class_of[members(team, group)[0]]]
    width = kind.observation_size + (len(spec.agents) if team.identity else 0)
    return Network(
        (width, *config.hidden, kind.actions), config.recurrent, norm=LayerNorm if config.layer_norm else None
    )


def part_bytes(spec: EnvSpec, team: Team, config: BcConfig, group: int) -> dict[str, int]:
    """The bytes of network and moments."""
    if config.network != "mlp":
        return {}  # which only its factory knows
    return trained_bytes("policy", policy_network(spec, team, config, group).parameters)


BC = AlgorithmSpec(
    "bc",
    BcConfig,
    (StageSpec("policy", (), "group", PARTS, PARTS),),
    PARTS,
    "functions.algorithms.imitation.bc",
    part_bytes=part_bytes,
    member_rows=True,
    imitates=True,
)
