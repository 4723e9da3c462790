"""Properties of all games in C."""

import numpy as np
import pytest
from built_kernels import needs_kernels
from compiled_games import TASKS, made, played, random_actions, rows

from marless.functions.environments.base import EnvironmentFault
from marless.functions.native.kernels import kernels, start_of
from marless.testing import environments as conformance

pytestmark = needs_kernels
STEPS = 40
every_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)


@pytest.mark.parametrize(
    ("key", "counter", "words"),
    [
        (0, (0, 0, 0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (2**64 - 1, (2**32 - 1,) * 4, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (0x299F31D0A4093822, (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_random_words_are_those_of_philox(key, counter, words):
    """The known answers of Philox4x32-10 in Random123, kat_vectors."""
    arrays = np.array([key], np.uint64), np.array(counter, np.uint32), np.zeros(4, np.uint32)
    kernels().random_words(*map(start_of, arrays))
    assert " ".join(f"{word:08x}" for word in arrays[2]) == words


@every_task
def test_every_promise_of_the_protocol_is_kept(task):
    conformance.check(lambda num_envs: made(task, num_envs), random_starts=not task.name.startswith("overcooked/"))


@every_task
def test_blocks_have_the_bytes_of_smaller_environments(task):
    joint, single = made(task, 6), made(task, 3)
    seen = joint.reset_blocks([np.random.default_rng(seed) for seed in (1, 2)])
    steps = played(joint, seen, np.random.default_rng(3), STEPS)
    assert any(step.ended.any() for _, step in steps)
    for block, seed in enumerate((1, 2)):
        single.reset(np.random.default_rng(seed))
        part = slice(3 * block, 3 * block + 3)
        for actions, step in steps:
            alone = single.step(tuple(array[part] for array in actions))
            assert rows(alone, slice(None)) == rows(step, part)


@every_task
def test_more_environments_change_no_earlier_one(task):
    few, many = made(task, 2), made(task, 5)
    few.reset(np.random.default_rng(1))
    seen = many.reset(np.random.default_rng(1))
    for actions, step in played(many, seen, np.random.default_rng(3), STEPS):
        assert rows(few.step((actions[0][:2],)), slice(None)) == rows(step, slice(2))


@every_task
def test_memory_is_reused_unless_view_is_held(task):
    environment, rng = made(task, 4), np.random.default_rng(0)
    seen, places = environment.reset(rng), set()
    held = seen.values[0][1:, ..., 0]
    before = held.copy()
    for _ in range(STEPS):
        step = environment.step(random_actions(environment, seen, rng))
        seen = step.observation
        places.add(step.rewards.ctypes.data)
    np.testing.assert_array_equal(held, before)
    assert 1 < len(places) < 5


@every_task
def test_a_missing_action_is_refused_and_changes_nothing(task):
    environment = made(task, 2)
    seen = environment.reset(np.random.default_rng(1))
    (right,), before = random_actions(environment, seen, np.random.default_rng(2)), environment.save()
    for wrong in (-1, environment.spec.classes[0].actions, 2**62):
        actions = right.copy()
        actions[1, -1] = wrong
        with pytest.raises(ValueError, match=r"an action is not from 0 to \d+"):
            environment.step((actions,))
    assert all((before[name] == array).all() for name, array in environment.save().items())


@every_task
def test_episodes_of_another_program_are_refused(task):
    environment = made(task, 2)
    environment.reset(np.random.default_rng(1))
    with pytest.raises(EnvironmentFault, match="were saved by another program"):
        environment.resume({"leaf/000": np.zeros(2)}, np.random.default_rng(1))
