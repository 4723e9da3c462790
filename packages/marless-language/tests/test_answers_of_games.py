"""Games of text: their answers in each form, or one line. Also texts, ends of replies and random numbers."""

import random
from typing import Any

import numpy as np
import pytest

from marless.functions.environments.base import EnvironmentFault, EnvTask
from marless_language.episodes import Episodes
from marless_language.games import text_games
from marless_language.games.draws import Draws
from marless_language.games.texts import CHARACTERS
from marless_language.protocol import Outcome, Turn
from marless_language.symbols import Symbols

INFOS: dict[str, str] = {}


class Game:
    """Its answers are given. It is over after a reply, and keeps the replies."""

    def __init__(
        self, observation: Any = (0, "say"), step: Any = (True, INFOS), close: Any = ({0: 1.0}, INFOS)
    ) -> None:
        self.observation, self.answer, self.rewards, self.heard = observation, step, close, list[str]()

    def reset(self, num_players: int, seed: int) -> None:
        pass

    def get_observation(self) -> Any:
        return self.observation

    def step(self, action: str) -> Any:
        self.heard.append(action)
        return self.answer

    def close(self) -> Any:
        return self.rewards


def episodes_of(game: Any, vocabulary: Any = None, players: int = 2, prompt: int = 8, reply: int = 3, horizon: int = 1):
    options = {"players": players, "horizon": horizon, "prompt": prompt, "reply": reply}
    return Episodes("game", text_games.make(EnvTask(name="game", options=options), lambda: game, vocabulary))


def played(game: Any, reply: str = "yes", **settings: Any) -> Outcome:
    episodes = episodes_of(game, **settings)
    episodes.reset(np.random.default_rng(0), 1)
    tokens = (settings.get("vocabulary") or CHARACTERS).encode(reply)
    outcome = episodes.reply(np.array([tokens], np.int32))
    assert isinstance(outcome, Outcome)
    return outcome


@pytest.mark.parametrize(
    "close",
    [
        {0: 5.0, 1: 1.0},
        ({0: 5.0, 1: 1.0}, INFOS),
        ({0: 5.0, 1: 1.0}, None),
        {np.int64(0): np.float32(5), np.int64(1): True},
        {"player_0": 5, "player_1": 1},
        {"0": 5, "1": 1},
        [5.0, 1.0],
        (5.0, 1.0),
        np.array([5, 1]),
        ([5.0, 1.0], INFOS),
        (np.array([5.0, 1.0]), INFOS),
    ],
    ids=repr,
)
def test_rewards_are_read_in_each_of_their_forms(close: Any):
    assert played(Game(close=close)).rewards.tolist() == [[5.0, 1.0]]


def test_unmentioned_players_and_truncated_games_get_no_reward():
    assert played(Game(close={1: 2})).rewards.tolist() == [[0.0, 2.0]]
    assert played(Game(close={})).rewards.tolist() == [[0.0, 0.0]]
    for close in (None, (None, INFOS)):
        assert played(Game(step=(False, INFOS), close=close)).rewards.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize(
    ("close", "words"),
    [
        (None, "returned no rewards of a game that is over"),
        ((None, INFOS), "returned no rewards of a game that is over"),
        (7.0, "returned float 7.0, not the rewards of 2 players"),
        ((7.0, INFOS), "not the rewards of 2 players"),
        ([1.0, 2.0, 3.0], "returned list of 3, not the rewards of 2 players"),
        ((1.0,), "returned tuple of 1, not the rewards"),
        ("won", "returned str 'won', not the rewards"),
        ({0: 1.0, 2: 1.0}, "a reward of player 2, whom there is not"),
        ({-1: 1.0}, "a reward of player -1, whom there is not"),
        ({True: 1.0}, "a reward of player True, whom there is not"),
        ({"winner": 1.0}, "a reward of player 'winner', whom there is not"),
        ({0: None}, "the reward of player 0"),
        ({0: float("nan")}, "the reward of player 0 is not finite"),
        ({0: [1.0, 2.0]}, "the reward of player 0"),
        ([1.0, None], "the reward of player 1"),
        ({0: 1.0, "player_0": 2.0}, "two rewards of player_0, the second as 'player_0'"),
        ({1: 1.0, "1": 1.0}, "two rewards of player_1, the second as '1'"),
        (np.array([[1.0], [2.0]]), "returned ndarray array([[1.], [2.]])"),
        ({0: 1 + 2j}, "the reward of player 0 is not numeric (TypeError: complex numbers)"),
        ({0: 1e300}, "rewards are no array of 1 x 2 finite numbers"),
    ],
    ids=repr,
)
def test_rewards_in_any_other_form_are_one_line(close: Any, words: str):
    with pytest.raises(EnvironmentFault, match=r"game, .*(close|reply): ") as fault:
        played(Game(close=close))
    assert words in str(fault.value) and "\n" not in str(fault.value)


@pytest.mark.parametrize(
    ("observation", "text"),
    [
        ((0, "say"), "say"),
        ((np.int64(0), "say"), "say"),
        (["0", "say"], "say"),
        ((0, [(-1, "one", "PROMPT"), (1, "two", "MESSAGE")]), "one\ntwo"),
        ((0, [{"role": "user", "content": "one"}, "two"]), "one\ntwo"),
        ((0, [[-1, 12]]), "12"),
        ((0, []), ""),
    ],
    ids=repr,
)
def test_observations_are_read_in_each_of_their_forms(observation: Any, text: str):
    turn = episodes_of(Game(observation)).reset(np.random.default_rng(0), 1)
    assert CHARACTERS.decode(turn.prompts[0]) == text.rjust(8)


@pytest.mark.parametrize(
    ("observation", "words"),
    [
        (None, "returned NoneType None, not a player and its observation"),
        ("say", "returned str 'say', not a player"),
        ((0, "say", INFOS), "returned tuple of 3, not a player"),
        ((2, "say"), "the turn of player 2, whom there is not"),
        ((-1, "say"), "the turn of player -1"),
        ((0.5, "say"), "the turn of player 0.5"),
        ((True, "say"), "the turn of player True"),
        ((None, "say"), "the turn of player None"),
        ((0, None), "the observation is NoneType None, no text and no messages"),
        ((0, b"say"), "the observation is bytes b'say'"),
        ((0, [{"role": "user"}]), "a message is dict of 1, without a text"),
        ((0, [{"role": "user", "content": [{"type": "text"}]}]), "a message is dict of 2, without a text"),
        ((0, [(1,)]), "a message is tuple of 1, without a text"),
        ((0, [None]), "a message is NoneType None, without a text"),
    ],
    ids=repr,
)
def test_observations_in_any_other_form_are_one_line(observation: Any, words: str):
    with pytest.raises(EnvironmentFault, match="game, step 0, get_observation: ") as fault:
        episodes_of(Game(observation)).reset(np.random.default_rng(0), 1)
    assert words in str(fault.value) and "\n" not in str(fault.value)


@pytest.mark.parametrize("step", [(True, INFOS), (np.bool_(True), INFOS), True, (1, None)], ids=repr)
def test_game_end_is_read_in_every_form(step: Any):
    assert played(Game(step=step)).metrics["over"].tolist() == [1.0]


@pytest.mark.parametrize("step", [None, ("no", INFOS), (0, 1.0, True, False, INFOS), (None, INFOS), 2.5], ids=repr)
def test_game_end_of_unknown_form_is_one_line(step: Any):
    with pytest.raises(EnvironmentFault, match=r"step 0, step: returned .*, not whether the game is over"):
        played(Game(step=step))


@pytest.mark.parametrize(
    ("said", "heard"),
    [(["a", "\n\n", "b"], "a"), (["b\n", "a", "\n"], "b"), (["a", "b", "\n"], "ab"), (["\n", "a", "b"], "")],
)
def test_reply_ends_at_token_with_new_line(said: list[str], heard: str):
    vocabulary, game = Symbols(["\n", " ", "a", "b", "\n\n", "b\n"]), Game((0, "a"))
    episodes = episodes_of(game, vocabulary)
    turn = episodes.reset(np.random.default_rng(0), 1)
    assert isinstance(turn, Turn) and (turn.end, turn.ends) == (0, (4, 5))
    episodes.reply(np.array([[vocabulary.symbols.index(part) for part in said]], np.int32))
    assert game.heard == [heard]


def test_mark_ends_own_reply_and_is_text_elsewhere():
    tokenizers = pytest.importorskip("tokenizers")
    from marless_language.model.text_tokenizer import tokenizer_of

    letters = {letter: number for number, letter in enumerate("\n ab<|e>")}
    plain = tokenizers.Tokenizer(tokenizers.models.BPE(letters, []))
    plain.add_special_tokens(["<|e|>"])
    vocabulary, game = tokenizer_of(plain.to_str()), Game((0, "b<|e|>a"))
    episodes = episodes_of(game, vocabulary)
    turn = episodes.reset(np.random.default_rng(0), 1)
    assert isinstance(turn, Turn) and turn.ends == (8,) and 8 not in turn.prompts
    episodes.reply(np.array([[2, 8, 3]], np.int32))
    assert game.heard == ["a"]


@pytest.mark.parametrize("vocabulary", [None, Symbols(CHARACTERS.symbols)])
def test_characters_missing_in_small_model_become_question_marks(vocabulary: Any):
    turn = episodes_of(Game((0, "é—\U0001f642 a")), vocabulary).reset(np.random.default_rng(0), 1)
    assert CHARACTERS.decode(turn.prompts[0]).strip() == "??? a"


def test_characters_missing_in_tokenizer_become_question_marks():
    tokenizers = pytest.importorskip("tokenizers")
    from marless_language.model.text_tokenizer import tokenizer_of

    letters = {letter: number for number, letter in enumerate("\n ?ab")}
    vocabulary = tokenizer_of(tokenizers.Tokenizer(tokenizers.models.BPE(letters, [])).to_str())
    assert vocabulary.encode_plain("aé\ud800b\U0001f642") == [3, 2, 2, 4, 2]


class Drawn:
    """Its start is drawn from a generator of the process, in `reset` or when it is made."""

    def __init__(self, draw: Any, when: str) -> None:
        self.draw, self.number = draw, draw(10**6) if when == "made" else None

    def reset(self, num_players: int, seed: int) -> None:
        self.number = self.draw(10**6) if self.number is None else self.number

    def get_observation(self) -> Any:
        return 0, f"{self.number:06d}"

    step, close = Game.step, Game.close


@pytest.mark.parametrize("when", ["made", "reset"])
@pytest.mark.parametrize("draw", [random.randrange, np.random.randint])
def test_copies_and_seeds_repeat_for_any_generator(draw: Any, when: str):
    def starts(seed: int) -> np.ndarray:
        options = {"horizon": 1, "prompt": 6, "reply": 1}
        task = text_games.make(EnvTask(name="game", options=options), lambda: Drawn(draw, when), None)
        return task.reset(np.random.default_rng(seed), 8, copies=4).prompts

    first = starts(3).reshape(2, 4, -1)
    assert (first == first[:, :1]).all() and (first[0, 0] != first[1, 0]).any()
    assert np.array_equal(first.reshape(8, -1), starts(3)) and not np.array_equal(starts(3), starts(4))


def test_random_numbers_of_games_leave_process_generators_unchanged():
    before = random.getstate(), np.random.get_state()[1].tolist()
    draws = Draws(5)
    with draws:
        first = random.random(), np.random.random()
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
    with draws:
        assert (random.random(), np.random.random()) != first
