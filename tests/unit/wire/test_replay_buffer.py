"""Minibatches of earlier rounds have the rows of these rounds and the observations that followed, from whichever
slot."""

import dataclasses
import itertools

import marked_rollouts
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from marked_rollouts import FATES, NUM_ENVS, STEPS, followed, legal, mark, observed

from marless.functions.data.batch import join
from marless.functions.data.replay_buffer import ReplayBuffer, RolloutKey, rollout_keys
from marless.functions.errors import BadRequest
from marless.functions.messages.learner import Past
from marless.functions.messages.message import Ref

ROWS = STEPS * NUM_ENVS


def rollouts(*numbers):
    return [RolloutKey(number, 0, f"hash of {number}") for number in numbers]


def buffer_with(spec, *numbers, buffer=None, fates=None):
    """A replay buffer with these rollouts. `asked` lists those it read."""
    buffer, asked = buffer or ReplayBuffer(spec), []

    def read(missing):
        asked.extend(rollout.round for rollout in missing)
        return {
            rollout: marked_rollouts.rollout(rollout.round, spec, *([fates[rollout.round]] if fates else []))
            for rollout in missing
        }

    buffer.load(rollouts(*numbers), read)
    return buffer, asked


def bytes_of(batch):
    found = []
    for field in dataclasses.fields(batch):
        value = getattr(batch, field.name)
        for array in value if isinstance(value, tuple) else (value,):
            found.append((field.name, array.shape, array.tobytes()) if isinstance(array, np.ndarray) else array)
    return found


def marks_of(batch):
    """The marks of the drawn rows ``[L, B]``, from agent 0's observations."""
    return batch.observations[0][0, ..., 0]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("own_state", [False, True])
@pytest.mark.parametrize("length", [1, 2, 4])
def test_every_segment_has_own_rows_and_successors(masked, own_state, length):
    spec = marked_rollouts.spec(masked, own_state)
    buffer, _ = buffer_with(spec, 5, 2, 7)
    starts = [
        (k, t, e) for k in range(3) for t in range(0, STEPS, length) for e in range(NUM_ENVS)
    ]  # by position in the buffer, not by number
    batch = buffer.segments_from(np.array([ROWS * k + NUM_ENVS * t + e for k, t, e in starts]), length)
    cuts = {(int(t), int(e)): index for index, (t, e) in enumerate(batch.cut)}
    for column, (k, first, e) in enumerate(starts):
        number = (5, 2, 7)[k]
        for row in range(length):
            t, here = first + row, mark(number, first + row, e)
            stands_at(batch, (row, column), here, masked, own_state)
            assert bool(batch.ended[row, column]) == (FATES[e][t] != ".")
            follows = followed(FATES, t, e)
            assert batch.terminated[:, row, column].tolist() == [follows == "end"] * 3
            inside = follows == "on" and row < length - 1
            if inside:
                assert (row, column) not in cuts
            elif follows != "end":
                there = mark(number, t, e, after=True) if follows == "cut" else mark(number, t + 1, e)
                stands_after(batch, cuts[row, column], there, masked, own_state)
            else:
                # Nothing follows, so the value is unused. But a segment always stores an observation for its end.
                assert ((row, column) in cuts) == (row == length - 1)


def stands_at(batch, at, here, masked, own_state):
    for index, kind in enumerate(batch.spec.classes):
        for position, agent in enumerate(kind.agents):
            seen = observed(here, agent, kind.observation_size)
            assert batch.observations[index][(position, *at)].tolist() == seen
            assert batch.actions[index][(position, *at)] == (here + agent) % kind.actions
            if masked:
                assert batch.masks[index][(position, *at)].tolist() == legal(here, agent, kind.actions).tolist()
    assert batch.rewards[(slice(None), *at)].tolist() == [here, here + 0.25, here + 0.5]
    assert batch.state[at].tolist() == state_of(here, own_state)


def stands_after(batch, index, there, masked, own_state):
    for c, kind in enumerate(batch.spec.classes):
        for position, agent in enumerate(kind.agents):
            assert batch.cut_observations[c][position, index].tolist() == observed(there, agent, kind.observation_size)
            if masked:
                found = batch.cut_masks[c][position, index]
                assert found.tolist() == legal(there, agent, kind.actions).tolist()
    assert batch.cut_state[index].tolist() == state_of(there, own_state)


def state_of(mark, own):
    """The global state, or the agents' observations concatenated: a and c observe two numbers, b one."""
    return [mark, -mark] if own else [mark, 100, mark, mark, 102]


def test_unmasked_segments_have_no_mask_and_probability():
    batch = buffer_with(marked_rollouts.spec(), 0)[0].segments_from(np.arange(3))
    assert batch.masks is None and batch.cut_masks is None and batch.log_probability is None


@pytest.mark.parametrize("masked", [False, True])
def test_whole_rollouts_equal_their_round(masked):
    """A segment of a whole rollout in every environment equals the on-policy batch of these rollouts."""
    spec = marked_rollouts.spec(masked, own_state=True)
    buffer, _ = buffer_with(spec, 3, 4)
    segments = buffer.segments_from(np.array([*range(NUM_ENVS), *range(ROWS, ROWS + NUM_ENVS)]), STEPS)
    named = {f"u{u:05d}/{name}": array for u in (3, 4) for name, array in marked_rollouts.rollout(u, spec).items()}
    expected = join(spec, named, (3, 4))
    ends = {(int(t), int(e)): index for index, (t, e) in enumerate(segments.cut)}
    for name in ("observations", "actions", "rewards", "terminated", "alive", "ended", "state", "masks"):
        np.testing.assert_equal(getattr(segments, name), getattr(expected, name))
    for index, (t, e) in enumerate(expected.cut):
        found = ends[int(t), int(e)]
        np.testing.assert_equal(segments.cut_state[found], expected.cut_state[index])
        for own, others in zip(segments.cut_observations, expected.cut_observations, strict=True):
            np.testing.assert_equal(own[:, found], others[:, index])


def test_drawn_rows_follow_segments_within_one_environment():
    buffer, _ = buffer_with(marked_rollouts.spec(), 0, 1, 2)
    for length in (1, 2, 4):
        found = marks_of(buffer.sample(np.random.default_rng(length), 300, length))
        first = found[0]
        np.testing.assert_array_equal(found, first + 10 * np.arange(length)[:, None])
        expected = {mark(k, t, e) for k in range(3) for t in range(0, STEPS, length) for e in range(NUM_ENVS)}
        assert {*first.tolist()} == expected


@pytest.mark.parametrize("length", [1, 2])
def test_every_segment_is_drawn_equally_often(length):
    buffer, _ = buffer_with(marked_rollouts.spec(), 0, 1)
    size, cells = 24_000, 2 * ROWS // length
    _, times = np.unique(marks_of(buffer.sample(np.random.default_rng(0), size, length))[0], return_counts=True)
    assert len(times) == cells
    # Chi-square with `cells - 1` degrees of freedom: mean cells - 1, variance twice that. Within five deviations.
    statistic = ((times - size / cells) ** 2 / (size / cells)).sum()
    assert abs(statistic - (cells - 1)) < 5 * np.sqrt(2 * (cells - 1))


def test_rows_may_repeat_and_address_repeats_draws():
    buffer, _ = buffer_with(marked_rollouts.spec(), 0)
    one, two = (bytes_of(buffer.sample(np.random.default_rng(8), 40)) for _ in range(2))
    assert one == two
    assert bytes_of(buffer.sample(np.random.default_rng(9), 40)) != one


def test_buffer_slides_and_reads_only_new_rounds():
    spec = marked_rollouts.spec(masked=True)
    buffer, asked = buffer_with(spec, 0, 1, 2)
    assert (asked, buffer.size, buffer.steps) == ([0, 1, 2], 3 * ROWS, STEPS)
    buffer, asked = buffer_with(spec, 1, 2, 3, buffer=buffer)
    assert asked == [3]
    assert {int(mark) // 1000 for mark in marks_of(buffer.sample(np.random.default_rng(0), 500)).ravel()} == {1, 2, 3}
    buffer, asked = buffer_with(spec, 3, buffer=buffer)
    assert (asked, buffer.size) == ([], ROWS)
    assert {int(mark) // 1000 for mark in marks_of(buffer.sample(np.random.default_rng(0), 500)).ravel()} == {3}
    # Dropped rollouts are read again.
    assert buffer_with(spec, 1, 3, buffer=buffer)[1] == [1]


def test_same_rollout_with_other_bytes_is_read_again():
    spec = marked_rollouts.spec()
    buffer, _ = buffer_with(spec, 0)
    read = []
    other = RolloutKey(0, 0, "hash of another attempt")
    buffer.load([other], lambda missing: read.extend(missing) or {other: marked_rollouts.rollout(9, spec)})
    assert read == [other]
    assert marks_of(buffer.segments_from(np.zeros(1, int)))[0, 0] == mark(9, 0, 0)


def test_address_draws_once_and_only_its_buffer():
    spec, asked = marked_rollouts.spec(), []
    buffer, _ = buffer_with(spec, 0)

    def draw():
        asked.append(marks_of(buffer.segments_from(np.zeros(1, int)))[0, 0])
        return buffer.segments_from(np.zeros(1, int))

    assert buffer.memoise((1, 0), draw) is buffer.memoise((1, 0), draw)
    assert buffer.memoise((1, 1), draw) is not buffer.memoise((1, 0), draw)
    buffer_with(spec, 1, buffer=buffer)
    assert marks_of(buffer.memoise((1, 0), draw))[0, 0] == mark(1, 0, 0)
    assert asked == [0, 0, 0, mark(1, 0, 0)]


def test_what_is_not_stored_yet_can_be_forgotten():
    spec, read = marked_rollouts.spec(), []

    def reading(missing):
        read.extend(missing)
        return {rollout: marked_rollouts.rollout(rollout.round, spec) for rollout in missing}

    buffer, unstored = ReplayBuffer(spec), RolloutKey(1, 0, "")
    buffer.load([*rollouts(0), unstored], reading)
    buffer.load([*rollouts(0), unstored], reading)
    assert read == [*rollouts(0), unstored]
    buffer.drop_unstored()
    buffer.load([*rollouts(0), unstored], reading)
    assert read == [*rollouts(0), unstored, unstored]


ENDS = list(itertools.product(("....", "c.c.", "t..t", "..ct"), repeat=2))


@given(
    buffers=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=6, unique=True), min_size=1, max_size=8),
    length=st.sampled_from([1, 2, 4]),
    seed=st.integers(0, 5),
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_kept_data_change_no_drawn_byte(buffers, length, seed):
    """These rollouts have zero to six cuts, so that slots grow in every way."""
    spec = marked_rollouts.spec(masked=True, own_state=True)
    fates = {number: ENDS[(5 * number + seed) % len(ENDS)] for number in range(10)}
    warm = ReplayBuffer(spec)
    for wanted in buffers:
        buffer_with(spec, *wanted, buffer=warm, fates=fates)
        cold, _ = buffer_with(spec, *wanted, fates=fates)
        one, two = (buffer.sample(np.random.default_rng(seed), 30, length) for buffer in (warm, cold))
        assert bytes_of(one) == bytes_of(two)


def test_the_order_is_that_of_what_is_wanted():
    spec = marked_rollouts.spec()
    buffer, _ = buffer_with(spec, 4, 1, 3)
    starts = np.arange(3) * ROWS
    assert marks_of(buffer.segments_from(starts))[0].tolist() == [4000, 1000, 3000]
    buffer_with(spec, 3, 5, 4, buffer=buffer)
    assert marks_of(buffer.segments_from(starts))[0].tolist() == [3000, 5000, 4000]


def test_buffer_grows_by_rollout_without_loss():
    spec = marked_rollouts.spec(masked=True, own_state=True)
    fates = {number: ENDS[number % len(ENDS)] for number in range(40)}
    buffer = ReplayBuffer(spec)
    for last in range(1, 41):
        _, asked = buffer_with(spec, *range(last), buffer=buffer, fates=fates)
        assert asked == [last - 1]
    cold, _ = buffer_with(spec, *range(40), fates=fates)
    every = np.arange(40 * STEPS * 2)
    assert bytes_of(buffer.segments_from(every)) == bytes_of(cold.segments_from(every))


def test_fully_terminated_rollout_has_no_successors():
    spec = marked_rollouts.spec(own_state=True)
    buffer, _ = buffer_with(spec, 0, 1, fates={0: ("...t", "t..t"), 1: ("...t", ".t.t")})
    batch = buffer.segments_from(np.arange(2 * STEPS * 2))
    assert batch.terminated[0, 0, [6, 7]].all()
    stands_after(batch, 0, mark(0, 1, 0), masked=False, own_state=True)


@pytest.mark.parametrize("odd", [("..",) * 3, ("....",) * 2, ("......",) * 3])
def test_rollouts_of_other_shapes_are_refused_in_words(odd):
    spec = marked_rollouts.spec()
    fates = {0: FATES, 1: odd}
    buffer, _ = buffer_with(spec, 0, fates=fates)
    steps, num_envs = len(odd[0]), len(odd)
    with pytest.raises(
        BadRequest, match=rf"a rollout of {steps} steps in {num_envs} environments, among others of \(4, 3\)"
    ):
        buffer_with(spec, 0, 1, buffer=buffer, fates=fates)
    # The remaining rollouts are complete, and a buffer with only the other shape is valid.
    buffer_with(spec, 0, buffer=buffer, fates=fates)
    assert marks_of(buffer.segments_from(np.arange(1)))[0, 0] == 0
    buffer_with(spec, 1, buffer=buffer, fates=fates)
    assert (buffer.steps, buffer.size) == (steps, steps * num_envs)


def test_segments_that_leave_remainder_are_refused_in_words():
    buffer, _ = buffer_with(marked_rollouts.spec(), 0)
    for length in (3, 5, 8):
        with pytest.raises(BadRequest, match=f"segments of {length} steps do not fill a rollout of 4"):
            buffer.sample(np.random.default_rng(0), 1, length)


def test_numbers_keep_their_type():
    spec = marked_rollouts.spec(own_state=True)
    for dtype in (np.float32, np.float64):
        buffer = ReplayBuffer(spec)
        buffer.load(
            rollouts(0),
            lambda missing, dtype=dtype: {u: marked_rollouts.rollout(0, spec, dtype=dtype) for u in missing},
        )
        batch = buffer.segments_from(np.arange(4))
        arrays = (*batch.observations, *batch.cut_observations, batch.rewards, batch.state, batch.cut_state)
        assert {array.dtype for array in arrays} == {np.dtype(dtype)}


def test_rollout_is_identified_by_round_number_and_bytes():
    one, two = Ref(key="a", sha256="aa", size=1), Ref(key="b", sha256="bb", size=1)
    past = [
        Past(round=3, rollouts=2, trajectories=(one, two)),
        Past(round=4, rollouts=1, trajectories=(two,)),
        Past(round=5, rollouts=1, trajectories=()),
    ]
    assert rollout_keys(past) == [
        RolloutKey(3, 0, "aabb"),
        RolloutKey(3, 1, "aabb"),
        RolloutKey(4, 0, "bb"),
        RolloutKey(5, 0, ""),
    ]
