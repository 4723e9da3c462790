"""Two thousand random episodes of the batched Multi-Particle Environments, each played again in mpe2."""

import numpy as np
import pytest
from against_mpe2 import FIXED, adversary, assert_equals, crowded, spread, tag, world_comm

EPISODES = 33  # of each case, in choices and in numbers: 2,046 in all
CASES = [
    *FIXED,
    *(spread(n) for n in range(1, 9)),
    *(adversary(n) for n in range(1, 9)),
    *(
        tag(good, adversaries, obstacles)
        for good, adversaries, obstacles in ((1, 3, 2), (1, 1, 0), (2, 4, 1), (4, 6, 3))
    ),
    *(
        world_comm(*counts)
        for counts in ((2, 4, 1, 2, 2), (1, 1, 0, 1, 0), (1, 2, 2, 1, 1), (3, 2, 0, 3, 3), (4, 6, 2, 2, 4))
    ),
]


@pytest.mark.conformance
@pytest.mark.parametrize("continuous", [False, True], ids=["choices", "numbers"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_episode_equals_mpe2_step_by_step(case, continuous):
    rng = np.random.default_rng(len(str(case)))
    engine = case.engine(EPISODES, continuous)
    engine.reset(rng)
    engine.restore(crowded(engine, rng, every=3))
    assert_equals(case, engine, case.reference(continuous), rng)
