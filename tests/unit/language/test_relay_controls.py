"""The controls of `text/relay`: what one role alone can reach, by hand, and rewards of other starts."""

import numpy as np
import pytest

from benchmarks.language.reachable import levels
from benchmarks.language.relays import RelayPrompts, parted, shuffled, sided
from functions.language.protocol import Outcome
from functions.language.symbols import Symbols
from functions.language.tasks.relay import SYMBOLS
from marless.testing.language import check


def test_what_one_role_can_reach_beside_a_frozen_one():
    # Two numbers, so the pairs are (0, 0), (0, 1) and (1, 0). The speaker says 0 for 0 always and for 1 in a quarter;
    # the adder is right about 0 + 0 and 1 + 0 in one half, and always writes 0 for y = 1.
    speaker = np.array([[1.0, 0.0], [0.25, 0.75]])
    adder = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.5, 0.5], [1.0, 0.0]]])
    reached = levels(speaker, adder)
    assert reached.start == pytest.approx((0.5 + 0.0 + 0.5) / 3)
    # For y = 0 it takes 0 for message 0 and 1 for message 1, for y = 1 there is only x = 0.
    assert reached.adder_alone == pytest.approx((1.0 + 0.75 + 1.0) / 3)
    assert reached.speaker_alone == pytest.approx((0.5 + 0.5) / 3)


def test_roles_that_understand_one_another_are_right_always():
    adder = np.zeros((10, 10, 10))
    for message, second in np.argwhere(np.add.outer(range(10), range(10)) < 10):
        adder[message, second, message + second] = 1
    assert levels(np.eye(10), adder) == pytest.approx((1, 1, 1))
    # One that says the same for all numbers leaves the number that the most pairs allow.
    assert levels(np.full((10, 10), 0.1), adder).adder_alone == pytest.approx(10 / 55)


def test_every_start_is_paid_what_another_one_earned():
    task = shuffled(None)
    for copies in (1, 2):
        turn = task.reset(np.random.default_rng(3), 12, copies)
        task.reply(np.resize(turn.allowed, (12, 1)).astype(np.int32))
        outcome = task.reply(np.resize(turn.allowed[::-1], (12, 1)).astype(np.int32))
        assert isinstance(outcome, Outcome)
        earned = outcome.metrics["success"]
        assert sorted(outcome.rewards[:, 0]) == sorted(earned)
        assert (outcome.rewards[:, 0] == outcome.rewards[:, 1]).all()
        paid_for = task._paid_for.reshape(-1, copies)
        assert (paid_for // copies == paid_for[:, :1] // copies).all()
        assert (paid_for // copies != np.arange(12 // copies)[:, None]).all()
        assert (outcome.rewards[:, 0] == earned[paid_for.ravel()]).all()


def test_a_relay_of_two_sides_keeps_the_protocol_and_pays_as_the_relay():
    check(lambda: sided(None))
    assert sided(None).sides == (0, 1)


def test_prompts_of_all_numbers_stand_where_the_levels_look_for_them():
    task = RelayPrompts(Symbols(SYMBOLS))
    asked, added = task.asked()
    decode = task.tokenizer.decode
    assert decode(asked.prompts[3].tolist()) == "The number three is written as "
    assert decode(added.prompts[47].tolist()) == "1+2=3, 4+4=8, 4+7="
    digits = [decode([token]) for token in asked.allowed.tolist()]
    assert task.digits_of(asked.allowed).tolist() == list(map(int, digits))


def test_a_parted_relay_trains_on_the_seen_pairs_and_is_evaluated_on_all():
    task = parted(None)
    for copies, least, most in ((4, 0.0, 0.0), (1, 0.2, 0.28)):
        turn = task.reset(np.random.default_rng(0), 4000, copies)
        task.reply(np.full((4000, 1), turn.allowed[0], np.int32))
        outcome = task.reply(np.full((4000, 1), turn.allowed[0], np.int32))
        assert isinstance(outcome, Outcome)
        # 13 of 55 pairs, .24.
        assert least <= outcome.metrics["unseen"].mean() <= most
        both = outcome.metrics["unseen"] * outcome.metrics["success"]
        assert (outcome.metrics["unseen_success"] == both).all()
    check(lambda: parted(None))
