"""Hanabi behind our protocol. Tests with OpenSpiel carry the mark `packages`. Tests of names and options always run."""

from importlib.util import find_spec

import numpy as np
import pytest

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.environments.scene import Box
from marless.functions.errors import BadRequest
from marless.testing import environments as conformance


def needs_open_spiel(test):
    skip = pytest.mark.skipif(find_spec("pyspiel") is None, reason="OpenSpiel is not installed")
    return pytest.mark.packages(skip(test))


def make(variant, num_envs=1, agents=None, **options):
    return registry.make(EnvTask(name=f"hanabi/{variant}", agents=agents, options=options), num_envs)


@pytest.mark.parametrize(
    ("variant", "agents", "options", "says"),
    [
        ("tiny", None, {}, "hanabi/tiny: Hanabi has no variant 'tiny'; there are: full, small, very_small"),
        ("full", 6, {}, "hanabi/full: task.agents is 6; there are 2 to 5 players"),
        ("full", 1, {}, "hanabi/full: task.agents is 1; there are 2 to 5 players"),
        ("full", None, {"colors": 6}, "hanabi/full: task.options.colors: it is not a whole number of at most 5"),
        ("full", None, {"max_life_tokens": 0}, "task.options.max_life_tokens: it is not a whole number of at least 1"),
        ("full", None, {"observation_type": "all"}, "task.options.observation_type: 'all' is not one of its values"),
        ("full", None, {"colours": 2}, "there is no colours here"),
        # Three cards of the lowest rank, one of the highest, and two of each between: 10 of one colour.
        ("very_small", 5, {}, "hanabi/very_small: 5 players with 2 cards leave none of the 10 cards"),
        ("very_small", 2, {"ranks": 1}, "2 players with 2 cards leave none of the 3 cards"),
    ],
)
def test_fatal_open_spiel_options_are_refused(variant, agents, options, says):
    with pytest.raises(BadRequest, match=says) as error:
        make(variant, agents=agents, **options)
    assert "\n" not in str(error.value)


@needs_open_spiel
@pytest.mark.parametrize(
    ("variant", "agents", "hand_size", "hints"),
    [
        # Per other player a hint for each colour and each rank.
        ("full", 2, 5, 5 + 5),
        ("full", 5, 4, 4 * (5 + 5)),
        ("small", 2, 2, 2 + 5),
        ("very_small", 2, 2, 1 + 5),
    ],
)
def test_player_plays_discards_and_gives_each_hint(variant, agents, hand_size, hints):
    spec = make(variant, agents=agents).spec
    (kind,) = spec.classes
    assert spec.agents == tuple(f"player_{i}" for i in range(agents)) and spec.masked
    assert kind.actions == 2 * hand_size + hints


@needs_open_spiel
def test_full_game_observations_have_published_length():
    assert make("full").spec.classes[0].observation_size == 658


@needs_open_spiel
def test_return_is_score_and_lost_lives_lose_it():
    played = {1: 0, 2: 0}
    for seed in range(12):
        environment = make("very_small")
        environment.reset(np.random.default_rng(seed))
        # Cards 0 and 1 of the first player, of one colour. The label gives colour and rank.
        hand = [shape for shape in environment.render(0).shapes if isinstance(shape, Box) and shape.y == 1.5]
        rank = int(next(card.label[1] for card in hand if card.label))
        step = environment.step((np.array([[2, 0]]),))  # play the oldest card
        if rank == 1:
            assert step.rewards.tolist() == [[0.5, 0.5]] and not step.ended.any()
            played[1] += 1
        else:
            assert step.rewards.tolist() == [[0.0, 0.0]] and step.terminated.all()
            played[2] += 1
    assert min(played.values()) > 0


@needs_open_spiel
def test_points_are_lost_with_the_last_life():
    for seed in range(40):
        environment = make("very_small")
        environment.reset(np.random.default_rng(seed))
        step, paid = environment.step((np.full((1, 2), 2),)), []
        while not step.ended[0]:
            paid.append(step.rewards.sum())
            step = environment.step((np.full((1, 2), 2),))
        if paid:
            assert paid == [1.0] * len(paid) and step.rewards.sum() == -len(paid)
            return
    raise AssertionError("no game began with a card of rank 1")


@needs_open_spiel
def test_a_long_game_is_played_to_its_end():
    # Players give 8 hints. Then they discard the 40 cards of the deck, and give a hint after all but the last. Both
    # have a last turn.
    environment = make("full")
    seen = environment.reset(np.random.default_rng(0))
    turns, ended = 0, False
    while not ended:
        mask = seen.masks[0][0, turns % 2]
        hints, discards = np.flatnonzero(mask[10:]), np.flatnonzero(mask[:5])
        step = environment.step((np.full((1, 2), hints[0] + 10 if len(hints) else discards[0]),))
        seen, turns, ended = step.observation, turns + 1, step.ended[0]
    assert turns == 8 + 40 + 39 + 2 and turns < environment.spec.horizon
    assert step.terminated.all() and not step.truncated.any()


@needs_open_spiel
@pytest.mark.parametrize(("variant", "agents"), [("very_small", 2), ("small", 3)])
def test_the_adapter_keeps_every_promise_of_the_protocol(variant, agents):
    conformance.check(lambda num_envs: make(variant, num_envs, agents), independent_envs=False)


@needs_open_spiel
def test_picture_shows_fireworks_hands_and_acting_player():
    environment = make("small", agents=3)
    environment.reset(np.random.default_rng(0))
    scene = environment.render(0)
    labels = [shape.label for shape in scene.shapes if isinstance(shape, Box)]
    assert labels[:2] == ["R0", "Y0"] and labels.count("") == 1  # the bar of who acts
    assert len(labels) == 2 + 1 + 3 * 2
    assert scene.texts == ("1 lives, 3 hints, 14 cards to draw",)
