"""Games of other packages as language tasks: PettingZoo's games of turns, and games of text."""

import random
from functools import partial

import numpy as np
import pytest
from random_turns import DONE

from marless.functions.environments.base import EnvironmentFault, EnvTask
from marless.functions.errors import BadRequest
from marless_language.episodes import Episodes
from marless_language.games.texts import CHARACTERS
from marless_language.playing import Voice, play
from marless_language.protocol import Outcome
from marless_language.registry import make
from marless_language.symbols import Symbols
from marless_language.tasks.conformance import check

TICTACTOE = EnvTask(
    name="text:pettingzoo.classic.tictactoe_v3:env", options={"horizon": 9, "sides": "player_1,player_2"}
)
CHALLENGE = EnvTask(name="text:spoken_games:WordedChallenge", options={"horizon": 24, "limit": 15, "prompt": 40})
# The order of turns is drawn, and one of three players may be out.
RANDOM_ORDER = EnvTask(name="text:random_turns:Game", options={"horizon": 24, "number": 57})
STONES = EnvTask(
    name="text:spoken_games:Stones",
    options={"horizon": 6, "prompt": 40, "reply": 2, "phrases": "1|2|3", "sides": "player_0,player_1"},
)


@pytest.mark.parametrize("task", [TICTACTOE, CHALLENGE, RANDOM_ORDER, STONES], ids=lambda task: task.name)
def test_games_keep_the_protocol(task):
    check(partial(make, task), random_starts=task is not TICTACTOE)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("none", "text_of: returned NoneType for agent 'player_"),
        ("bytes", "text_of: returned bytes for agent 'player_"),
        ("raised", "text_of: ValueError: no text"),
    ],
)
def test_what_is_no_text_is_not_read(text, words):
    task = EnvTask(
        name="text:spoken_games:WrongWords", options={"horizon": 24, "limit": 15, "prompt": 40, "text": text}
    )
    with pytest.raises(EnvironmentFault) as fault:
        make(task).reset(np.random.default_rng(0), 1)
    assert words in str(fault.value) and "\n" not in str(fault.value)


def said(task, *moves, seed=0):
    """Return the turns of one episode with these texts, one after another, and the outcome."""
    turns, moves = [], list(moves)
    turn = task.reset(np.random.default_rng(seed), 1)
    while not isinstance(turn, Outcome):
        turns.append(turn)
        reply = np.full((1, turn.length), turn.allowed[0] if turn.end is None else turn.end, np.int32)
        if turn.is_asked[0]:
            tokens = task.tokenizer.encode(moves.pop(0))
            reply[0, : len(tokens)] = tokens
        turn = task.reply(reply)
    assert not moves
    return turns, turn


def texts(task, turns):
    return [task.tokenizer.decode(turn.prompts[0].tolist()) for turn in turns]


def test_tictactoe_is_read_played_and_paid_like_pettingzoo():
    task = make(TICTACTOE)
    assert (task.roles, task.sides, task.turns, task.context) == (("player_1", "player_2"), (0, 1), 9, 19)
    turns, outcome = said(task, "0", "3", "1", "4", "2")
    # A cell after the other, column by column in the game's own order: mine, and the other's.
    assert texts(task, turns)[:3] == ["00" * 9, "01" + "00" * 8, "10" + "00" * 2 + "01" + "00" * 5]
    legal = [task.tokenizer.decode(turn.allowed[turn.legal[0]].tolist()) for turn in turns]
    assert legal == ["012345678", "12345678", "1245678", "245678", "25678", "", "", "", ""]
    assert outcome.rewards.tolist() == [[1.0, -1.0]]
    assert outcome.metrics["over"].tolist() == [1.0]


def test_what_is_random_never_says_what_is_illegal():
    task = make(TICTACTOE)
    generator = np.random.default_rng(0)
    voices = [Voice(None, "random")] * 2
    transcript = play(None, Episodes("tictactoe", task), voices, generator, np.random.default_rng, 64)
    counts = np.zeros(9)
    for number, (turn, sampled) in enumerate(transcript.turns):
        places = np.searchsorted(turn.allowed, sampled.replies[:, 0])
        assert turn.legal[np.arange(64), places][turn.is_asked].all()
        assert (sampled.mask[:, 0] == turn.is_asked).all()
        chances = np.where(turn.is_asked, np.exp(-sampled.log_probability[:, 0]), 9 - number)
        np.testing.assert_allclose(chances, 9 - number, rtol=1e-6)
        if number == 0:
            counts = np.bincount(places, minlength=9)
    assert (counts > 0).sum() >= 8  # 64 draws miss one of nine with a chance of 0.005
    assert transcript.replies == sum(int(turn.is_asked.sum()) for turn, _ in transcript.turns) < 9 * 64


def test_texts_keep_their_end_and_gone_players_rest():
    task = make(CHALLENGE)
    assert (task.roles, task.turns) == (("player_0", "player_1", "player_2"), 24)
    turns, outcome = said(task, "2", "0", "0", "2")
    first = texts(task, turns)[0]
    assert len(first) == 40 and "Player 0, turn 0, 3 of us" in first
    # Player 0 throws out player 1, and later player 2 player 0.
    assert [turn.role for turn in turns if turn.is_asked[0]] == [0, 2, 0, 2]
    assert outcome.rewards.tolist() == [[-1.0, -1.0, 2.0]]


def test_player_on_turn_is_asked_in_any_order():
    task, episodes = make(RANDOM_ORDER), 5
    DONE.clear()
    turn, order = task.reset(np.random.default_rng(0), episodes), []
    while not isinstance(turn, Outcome):
        order += [(episode, task.roles[turn.role]) for episode in np.flatnonzero(turn.is_asked)]
        turn = task.reply(turn.allowed[turn.legal.argmax(axis=1)][:, None])
    # The games saw, in their order of time, the asked roles.
    assert [str(agent) for agent, _ in DONE] == [role for _, role in order]
    assert len({tuple(role for one, role in order if one == episode) for episode in range(episodes)}) > 1


def test_text_game_is_read_answered_and_paid():
    task = make(STONES)
    assert (task.roles, task.turns, task.context) == (("player_0", "player_1"), 6, 42)
    turns, outcome = said(task, "no")
    assert texts(task, turns)[0].strip().startswith("Take 1, 2 or 3 stones.\nThere are ")
    assert outcome.rewards.tolist() == [[-1.0, 0.0]]
    assert [bool(turn.is_asked[0]) for turn in turns] == [True] + [False] * 5
    lesson = task.lessons(np.random.default_rng(0), 60)[0]
    assert {task.tokenizer.decode(reply.tolist()) for reply in lesson.tokens[:, 40:]} == {"1\n", "2\n", "3\n"}


def test_games_leave_generator_of_python_unchanged():
    before = random.getstate()
    said(make(STONES), "no")
    assert random.getstate() == before


def test_game_without_phrases_has_no_lessons_and_explains():
    task = make(EnvTask(name=STONES.name, options={"horizon": 6, "prompt": 40, "reply": 2}))
    with pytest.raises(BadRequest, match=r"task\.options\.phrases.* or set base\.model"):
        task.lessons(np.random.default_rng(0), 60)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("text:pettingzoo.classic.tictactoe_v3:env", {}, "does not say how long an episode is"),
        ("text:challenges:Challenge", {"horizon": 9, "space": "choices"}, "does not choose among 2 to 62 actions"),
        ("text:spoken_games:WordedChallenge", {"horizon": 9}, "set task.options.prompt"),
        ("text:spoken_games:Stones", {"horizon": 6, "prompt": 9}, "set task.options.reply"),
        (
            "text:spoken_games:Stones",
            {"horizon": 6, "prompt": 9, "reply": 1, "phrases": "one"},
            "'one' of task.options.phrases has more than task.options.reply tokens",
        ),
        ("text:spoken_games:random", {}, "module 'spoken_games' has no function"),
    ],
)
def test_unplayable_games_are_refused_in_one_line(name, options, message):
    with pytest.raises(BadRequest) as refusal:
        make(EnvTask(name=name, options=options))
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_vocabulary_without_numerals_is_refused_by_name():
    with pytest.raises(BadRequest, match="the vocabulary has no symbol for"):
        make(TICTACTOE, Symbols(["0", "1"]))
    task = EnvTask(name="text:challenges:Challenge", options={"horizon": 9})
    with pytest.raises(AssertionError, match="give the environment a method text_of"):
        check(partial(make, task, CHARACTERS))
