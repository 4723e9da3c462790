"""`grpo` for groups of roles: the first adapter, sums over parts of a round, and the step along them."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.stage import Context, Fold, Stage, StageResult, Tensors
from marless.functions.environments.base import EnvSpec
from marless.functions.keys import group_name
from marless.functions.messages.team import Team
from marless.functions.randomness import generator
from marless_language import grpo
from marless_language.adapter_layout import initial_adapter
from marless_language.bound_model import MODELS
from marless_language.grpo import Descent
from marless_language.specs import GrpoConfig, adapter_name
from marless_language.trajectories import Experience, join

__all__ = ["FOLDS", "PARTIAL", "STAGES", "initialise", "join"]


def initialise(spec: EnvSpec, team: Team, config: GrpoConfig, seed: int, group: int) -> dict[str, NDArray[Any]]:
    """An adapter that changes nothing yet, and the state of its optimiser."""
    layout = MODELS.speaker.layout
    return _tensors(grpo.begin(initial_adapter(layout, generator(seed, "initialise", group))), group)


def partial_sums(context: Context[GrpoConfig], group: int) -> dict[str, NDArray[Any]]:
    """See `marless.functions.algorithms.stage.Partial`."""
    from marless_language.grpo_gradient import gradient_sums

    experience = cast(Experience, context.batch)
    replies = experience.of_group(context.team, group, context.config.group_size)
    return gradient_sums(MODELS.speaker, context.tensors[adapter_name(group)], context.config, replies)


def fold(context: Context[GrpoConfig], group: int, sums: Sequence[Tensors]) -> StageResult:
    """See `marless.functions.algorithms.stage.Fold`."""
    descent = grpo.step(context.config, _descent(context.tensors, group), sums)
    return StageResult(_tensors(descent, group), grpo.metrics(sums))


def policy(context: Context[GrpoConfig], group: int) -> StageResult:
    """One step along the gradient of the round."""
    return fold(context, group, [partial_sums(context, group)])


def _optimiser(group: int, name: str) -> str:
    return f"policy_optimiser/{group_name(group)}/{name}"


def _descent(tensors: Mapping[str, NDArray[Any]], group: int) -> Descent:
    first, second, steps = (tensors[_optimiser(group, name)] for name in Descent._fields[1:])
    return Descent(tensors[adapter_name(group)], first, second, int(steps[0]))


def _tensors(descent: Descent, group: int) -> dict[str, NDArray[Any]]:
    first, second, steps = Descent._fields[1:]
    return {
        adapter_name(group): descent.adapter,
        _optimiser(group, first): descent.first,
        _optimiser(group, second): descent.second,
        _optimiser(group, steps): np.array([descent.steps], np.int64),
    }


STAGES: Mapping[str, Stage] = {"policy": policy}
PARTIAL = partial_sums
FOLDS: Mapping[str, Fold] = {"policy": fold}
