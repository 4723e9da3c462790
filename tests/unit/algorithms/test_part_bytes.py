"""The size that an algorithm declares for its state is the size of the state."""

import numpy as np
import pytest

from marless.functions.algorithms import registry
from marless.functions.errors import BadRequest
from marless.testing.algorithms.random_tasks import TASKS, teams

CASES = [(task, team, group) for task in TASKS.values() for team in teams(task) for group in team.learning]


VARIANTS = [
    (spec.name, {**memory, "layer_norm": normed})
    for spec in registry.ALGORITHMS.ours()
    if spec.part_bytes
    for memory in ({}, {"recurrent": True})
    if not memory or "recurrent" in spec.config.__struct_fields__
    for normed in (False, True)
]


@pytest.mark.parametrize(("name", "settings"), [*VARIANTS, ("mappo", {"critic_input": "state+observation"})])
def test_reported_bytes_cover_networks_and_moments(name, settings):
    """Counts 4-byte numbers, without optimisers' step counts and the scales of rewards and values."""
    spec, compared = registry.algorithm(name), 0
    for task, team, group in CASES:
        config = registry.configuration(spec, {"hidden": [8, 4]} | settings).resolved(task)
        try:
            made = registry.implementation(spec).initialise(task, team, config, 1, group)
        except BadRequest:
            continue
        arrays = [(name.split("/")[0], array) for name, array in made.items() if array.dtype == np.float32]
        large = {part: sum(array.nbytes for of, array in arrays if of == part) for part, _ in arrays}
        assert spec.part_bytes(task, team, config, group) == large
        compared += 1
    assert compared > len(CASES) / 3
