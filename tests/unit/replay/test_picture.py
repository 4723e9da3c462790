"""Pictures of MPE states, checked by hand."""

import numpy as np
import pytest

pytest.importorskip("PIL")

from coordinator.errors import UserError
from coordinator.replay.picture import SIZE, picture
from functions.environments import registry
from functions.environments.base import EnvTask


def test_the_furthest_body_is_nine_tenths_of_the_way_to_the_edge_in_its_colour() -> None:
    environment = registry.make(EnvTask(name="mpe/simple_spread"), 1)
    environment.reset(np.random.default_rng(0))
    state = environment.snapshot()  # type: ignore[attr-defined]
    state.position[:] = 0.0
    for furthest in (1.0, 4.0):
        state.position[0, 0] = (furthest, 0.0)
        environment.restore(state)  # type: ignore[attr-defined]
        assert picture(environment)[SIZE // 2, int(1.9 * SIZE / 2)].tolist() == [70, 70, 170]


def test_a_task_without_a_picture_says_so() -> None:
    environment = registry.make(EnvTask(name="matrix/climbing"), 1)
    with pytest.raises(UserError, match="cannot be drawn"):
        picture(environment)
