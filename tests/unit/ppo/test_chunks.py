"""Minibatches of rows and of segments: every living row once an epoch, and the hidden state at a segment's start."""

import dataclasses

import numpy as np
import pytest
import synthetic

from marless.functions.algorithms.agent_inputs import members
from marless.functions.algorithms.group_inputs import observations, pool_rows, starts
from marless.functions.algorithms.minibatches import Independent, shuffled_minibatches, training_samples
from marless.functions.algorithms.trainable import outputs
from marless.functions.nn import recurrent
from marless.functions.nn.networks import unroll

LENGTHS = pytest.mark.parametrize("length", [1, 4, 7, 14, 99, None])


def scene(recurrent_=True):
    settings = {"hidden": [6], "recurrent": recurrent_}
    context, _ = synthetic.context("ippo", synthetic.spec("one choice"), settings)
    return context, recurrent.weights_of(context.tensors, "policy/g00")


def pieces_of(context, weights, length):
    return training_samples(context, 0, weights, lambda agent: observations(context, agent), length)


@LENGTHS
def test_chunks_give_what_the_whole_sequence_gives(length):
    context, weights = scene()
    whole = pool_rows(context, 0, lambda agent: unroll(weights, observations(context, agent), starts(context))[0])
    found = outputs(weights, pieces_of(context, weights, length))
    np.testing.assert_allclose(found, whole, rtol=0, atol=1e-14)
    assert np.abs(whole).max() > 1e-3


@LENGTHS
def test_every_living_row_is_in_one_chunk(length):
    context, weights = scene()
    alive = context.batch.alive[members(context.team, 0)]
    pieces = pieces_of(context, weights, length)
    np.testing.assert_array_equal(np.sort(pieces.rows[pieces.rows >= 0]), np.arange(alive.sum()))
    agent, step, copy = (place[pieces.rows.clip(0)] for place in np.nonzero(alive))
    here = pieces.rows >= 0
    for column in range(len(pieces)):
        own = here[:, column]
        assert own.any()
        assert len({*agent[own, column]}) == len({*copy[own, column]}) == 1
        place = np.flatnonzero(own)
        assert len({*(step[own, column] - place)}) == 1
        np.testing.assert_array_equal(
            pieces.starts[place, column], starts(context)[step[own, column], copy[own, column]]
        )
    assert len(pieces.rows) == min(length or 14, 14)


def test_chunk_memory_equals_that_of_whole_unrolling():
    context, weights = scene()
    pieces = pieces_of(context, weights, 4)
    agent, step, copy = (place[pieces.rows.clip(0)] for place in np.nonzero(context.batch.alive[[0, 2]]))
    seen = 0
    for column in np.flatnonzero(pieces.rows[0] >= 0):
        t, e = step[0, column], copy[0, column]
        hidden = unroll(weights, observations(context, (0, 2)[agent[0, column]]), starts(context))[1].hidden
        wanted = hidden[t - 1, e] if t else np.zeros(6)
        np.testing.assert_allclose(pieces.first[column], wanted, rtol=0, atol=1e-14)
        seen += t > 0
    assert seen > 5


def test_steps_before_an_episode_change_nothing_in_it():
    context, weights = scene()
    (t, e), *_ = np.argwhere(context.batch.ended[:-1])
    whole = unroll(weights, observations(context, 0), starts(context))[0]
    other = tuple(array.copy() for array in context.batch.observations)
    other[0][0, : t + 1, e] += 1
    changed = dataclasses.replace(context, batch=dataclasses.replace(context.batch, observations=other))
    found = unroll(weights, observations(changed, 0), starts(changed))[0]
    assert (found[t, e] != whole[t, e]).any()
    np.testing.assert_array_equal(found[t + 1 :, e], whole[t + 1 :, e])


@pytest.mark.parametrize("remembers", [False, True])
def test_epoch_takes_every_row_once_with_known_places(remembers):
    context, weights = scene(remembers)
    pieces = pieces_of(context, weights, 4)
    found = list(shuffled_minibatches(pieces, np.random.default_rng(1), epochs=2, count=3))
    assert len(found) == 6
    for epoch in (found[:3], found[3:]):
        rows = np.concatenate([part.rows for part in epoch])
        np.testing.assert_array_equal(np.sort(rows), np.arange(len(rows)))
    assert found[0].rows.tolist() != found[3].rows.tolist()
    for part in found:
        trace = weights.forward(part.inputs, part.starts, part.first)
        select = part.select(trace.outputs)
        assert len(select) == len(part.rows)
        wide = part.scatter(select)
        assert wide.shape == trace.outputs.shape
        np.testing.assert_array_equal(part.select(wide), select)
        assert np.count_nonzero(wide) == np.count_nonzero(select)


def test_too_few_pieces_become_single_piece_minibatches():
    def minibatches(rows):
        return list(shuffled_minibatches(Independent(rows), np.random.default_rng(0), epochs=2, count=8))

    assert [len(part.rows) for part in minibatches(np.arange(6.0).reshape(3, 2))] == 6 * [1]
    assert not minibatches(np.empty((0, 2)))


@pytest.mark.parametrize("remembers", [False, True])
def test_pieces_are_found_by_their_rows(remembers):
    context, weights = scene(remembers)
    pieces = pieces_of(context, weights, 4)
    marked = np.zeros(int(context.batch.alive[[0, 2]].sum()), bool)
    assert not len(pieces.containing(marked))
    marked[[3, 40]] = True
    containing = pieces.containing(marked)
    assert {3, 40} <= {*pieces.part(containing).rows.tolist()}
    assert len(containing) == 2
    others = np.setdiff1d(np.arange(len(pieces)), containing)
    assert not {3, 40} & {*pieces.part(others).rows.tolist()}
