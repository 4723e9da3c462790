"""The controls of `text/relay`: the reachable rewards of one role alone, by hand, and rewards of other starts."""

import json

import numpy as np
import pytest

from benchmarks.language import held_out
from benchmarks.language.reachable import levels
from benchmarks.language.relays import RelayPrompts, parted, shuffled, sided
from marless.runs.folder import RunFolder
from marless_language.protocol import Outcome
from marless_language.symbols import Symbols
from marless_language.tasks.conformance import check
from marless_language.tasks.relay import SYMBOLS


def test_one_role_reaches_return_next_to_frozen_role():
    # Two numbers, so the pairs are (0, 0), (0, 1) and (1, 0). The speaker says 0 for 0 always and for 1 in a quarter.
    # The adder is right about 0 + 0 and 1 + 0 in one half, and always writes 0 for y = 1.
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


def test_two_sided_relay_keeps_protocol_and_pay():
    check(lambda: sided(None))
    assert sided(None).sides == (0, 1)


def test_prompts_of_numbers_are_at_expected_levels():
    task = RelayPrompts(Symbols(SYMBOLS))
    asked, added = task.asked()
    decode = task.tokenizer.decode
    assert decode(asked.prompts[3].tolist()) == "The number three is written as "
    assert decode(added.prompts[47].tolist()) == "1+2=3, 4+4=8, 4+7="
    digits = [decode([token]) for token in asked.allowed.tolist()]
    assert task.digits_of(asked.allowed).tolist() == list(map(int, digits))


def test_split_relay_trains_on_part_and_evaluates_all():
    """Of 55 pairs 13 are for validation, a share of 0.236, and 8 for the test, a share of 0.145."""
    task = parted(None)
    for copies, shares in ((4, {"validation": 0.0, "test": 0.0}), (1, {"validation": 0.236, "test": 0.145})):
        turn = task.reset(np.random.default_rng(0), 4000, copies)
        task.reply(np.full((4000, 1), turn.allowed[0], np.int32))
        outcome = task.reply(np.full((4000, 1), turn.allowed[0], np.int32))
        assert isinstance(outcome, Outcome)
        for part, share in shares.items():
            # Four standard errors of a share of 0.236 of 4,000 are 0.027.
            assert outcome.metrics[part].mean() == pytest.approx(share, abs=0.027 * (copies == 1))
            both = outcome.metrics[part] * outcome.metrics["success"]
            assert (outcome.metrics[f"{part}_success"] == both).all()
        assert not (outcome.metrics["validation"] * outcome.metrics["test"]).any()
    check(lambda: parted(None))


def test_test_pairs_differ_from_training_and_validation_pairs():
    task = parted(None)
    parts = [{tuple(pair) for pair in pairs.tolist()} for pairs in (task._trained, *task._parts.values())]
    assert [len(part) for part in parts] == [34, 13, 8]
    assert len(set.union(*parts)) == 55


def test_a_run_has_the_success_of_each_part(tmp_path):
    """Of 100 episodes 60 are trained pairs, 30 right, 30 for validation, 12 right, and 10 for the test, 7 right."""
    metrics = {"success": 0.49, "validation": 0.3, "validation_success": 0.12, "test": 0.1, "test_success": 0.07}
    lines = [{"env_metrics": {"success": 0.8}, "evaluation": {"round": 10, "env_metrics": metrics}}]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    summary = {"commit": "0123456789", "rounds": 20, "final_env_metrics": metrics, "weights_sha256": "ab" * 32}
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    row = held_out.row(RunFolder(tmp_path))
    numbers = {name: row[name] for name in ("last_success", "rounds", "train", "validation", "test")}
    assert numbers == {
        "last_success": "0.800",
        "rounds": "10 20",
        "train": "0.500 0.500",
        "validation": "0.400 0.400",
        "test": "0.700",
    }
