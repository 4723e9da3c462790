"""Scripted players: their choices, against other implementations and by hand, and players of users."""

import numpy as np
import pytest

from marless.coordinator.core.opponents import unscripted
from marless.coordinator.errors import UserError
from marless.functions.environments import registry as environments
from marless.functions.environments.base import EnvTask
from marless.functions.environments.scripted import connect_four, leduc_holdem
from marless.functions.environments.scripted.players import choose
from marless.functions.environments.scripted.script_names import BUILT_IN, is_scripted_name, reference
from marless.functions.errors import BadRequest
from marless.runs.run_policies import find_policies
from marless.runs.run_store import RUNS

LEDUC = "pettingzoo:pettingzoo.classic.leduc_holdem_v4:env"
JACK, QUEEN, KING, HIDDEN = 0, 1, 2, None
CALL, RAISE, FOLD, CHECK = range(4)


def test_connect_four_script_equals_exhaustive_player():
    pytest.importorskip("pygame")
    from connect_four import scripted_columns
    from pettingzoo.classic import connect_four_v3

    game, rng, positions = connect_four_v3.env(), np.random.default_rng(3), []
    for number in range(60):
        game.reset(seed=number)
        while not any(game.terminations.values()):
            seen = game.observe(game.agent_selection)
            positions.append(seen)
            game.step(int(rng.choice(np.flatnonzero(seen["action_mask"]))))
    boards = np.stack([seen["observation"].ravel() for seen in positions]).astype(np.float32)
    legal = np.stack([seen["action_mask"] for seen in positions]).astype(bool)
    found = connect_four.choose(boards, legal)
    expected = [scripted_columns(seen) for seen in positions]
    assert [np.flatnonzero(row).tolist() for row in found] == expected
    assert sum(len(columns) < 3 for columns in expected) > 50  # wins and blocks, not only play anywhere


def board(*rows):
    """A board of own stones `x` and the other's `o`, from the top."""
    rows = ["......."] * (6 - len(rows)) + list(rows)
    stones = np.array([[(cell == "x", cell == "o") for cell in row] for row in rows], np.float32)
    return stones.reshape(1, -1), (~stones[0].any(axis=1).astype(bool))[None]


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (["......."], [0, 1, 2, 3, 4, 5, 6]),
        ([".ooo..."], [0, 4]),
        ([".ooo...", ".xxx..."], [0, 4]),  # the lower row wins, on either side
        (["x......", "x.o....", "x.oo..."], [0]),
        # Four along a diagonal, on three stones: a win.
        (["...o...", "..xo...", ".xoo...", "xoxx..."], [3]),
        # A gap is a win in the lowest row, a danger where a stone lies below it, and nothing above an empty cell.
        (["oo.o...", "xx.x..."], [2]),
        (["oo.o...", "xxxo..."], [2]),
        (["oo.o...", "xo.x..."], [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_connect_four_wins_or_blocks_by_hand(rows, columns):
    found = connect_four.choose(*board(*rows))
    assert np.flatnonzero(found[0]).tolist() == columns


def test_a_full_column_is_not_chosen():
    stones, legal = board("o......", "x......", "o......", "x......", "o......", "x......")
    assert np.flatnonzero(connect_four.choose(stones, legal)[0]).tolist() == [1, 2, 3, 4, 5, 6]


def hand(card, public, own, other):
    seen = np.zeros((1, 36), np.float32)
    seen[0, card] = seen[0, 6 + own] = seen[0, 21 + other] = 1
    if public is not None:
        seen[0, 3 + public] = 1
    return seen


@pytest.mark.parametrize(
    ("card", "public", "own", "other", "legal", "action"),
    [
        (KING, HIDDEN, 1, 2, (CALL, RAISE, FOLD), RAISE),
        (KING, HIDDEN, 4, 6, (CALL, FOLD), CALL),
        (QUEEN, HIDDEN, 2, 4, (CALL, RAISE, FOLD), CALL),
        (QUEEN, HIDDEN, 2, 2, (RAISE, FOLD, CHECK), CHECK),
        (JACK, HIDDEN, 1, 2, (CALL, RAISE, FOLD), CALL),
        (JACK, HIDDEN, 2, 4, (CALL, RAISE, FOLD), FOLD),
        (JACK, HIDDEN, 2, 2, (RAISE, FOLD, CHECK), CHECK),
        (JACK, JACK, 2, 6, (CALL, RAISE, FOLD), RAISE),
        (QUEEN, QUEEN, 10, 14, (CALL, FOLD), CALL),
        (QUEEN, JACK, 2, 2, (RAISE, FOLD, CHECK), CHECK),
        (QUEEN, JACK, 2, 6, (CALL, RAISE, FOLD), FOLD),
        (KING, JACK, 2, 6, (CALL, RAISE, FOLD), CALL),
        (KING, JACK, 2, 2, (RAISE, FOLD, CHECK), CHECK),
        (KING, JACK, 1, 1, (CALL,), CALL),  # while it waits
    ],
)
def test_leduc_holdem_by_hand(card, public, own, other, legal, action):
    found = leduc_holdem.choose(hand(card, public, own, other), np.isin(np.arange(4), legal)[None])
    assert np.flatnonzero(found[0]).tolist() == [action]


@pytest.mark.parametrize("task", BUILT_IN)
def test_built_in_player_plays_legally_and_beats_random(task):
    pytest.importorskip("pygame")
    if task == LEDUC:
        pytest.importorskip("rlcard")
    from marless.reports.crossplay import totals
    from marless.reports.policy import scripted_policy

    game = EnvTask(name=task, options={"horizon": 42, "sides": "player_0,player_1"})
    player = scripted_policy(game, reference("scripted", task))
    for side in ("player_0", "player_1"):
        returns = totals(game, player, side, None, 160, 1)
        assert returns.mean() > 2 * returns.std() / 160**0.5, side


def test_player_names_differ_from_runs_and_files():
    assert all(map(is_scripted_name, ("scripted", "my_players:careful", "package.module:player")))
    assert not any(map(is_scripted_name, ("latest", "runs/first", "policies.safetensors", "random", "a/b:c")))


def test_task_without_player_lists_tasks_that_have_one():
    with pytest.raises(ValueError, match=r"mpe/simple_tag has no scripted player of its own .*connect_four"):
        reference("scripted", "mpe/simple_tag")


LEGAL = np.array([[True, False, True], [False, True, True]])


def test_a_player_of_ones_own_is_a_function():
    assert choose("scripted_players:first", LEGAL, LEGAL).tolist() == [[True, False, False], [False, True, False]]


@pytest.mark.parametrize(
    ("player", "message"),
    [
        ("no_such_module:player", "no_such_module"),
        ("scripted_players:absent", "absent"),
        ("scripted_players:fails", "RuntimeError: no idea"),
        ("scripted_players:writes", "read-only"),
        ("broken_player:player", "SyntaxError"),
        ("scripted_players:anything", "one or more of the legal actions"),
        ("scripted_players:nothing", "one or more of the legal actions"),
    ],
)
def test_what_is_no_player_is_refused_by_name(player, message, tmp_path, shell):
    (tmp_path / "broken_player.py").write_text("def player(:")
    shell.import_from(tmp_path)
    with pytest.raises(BadRequest, match=f"scripted player {player}.*{message}"):
        choose(player, LEGAL, LEGAL)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("nodots", {}, "named scripted or package.module:function"),
        ("my_players:first", {"continuous_actions": True}, "continuous"),
    ],
)
def test_task_that_no_script_can_play_is_named(text, options, message):
    task = EnvTask(name="mpe/simple_tag", options=options)
    assert message in unscripted("league.script", text, task.name, environments.spec(task))


def test_script_for_several_choices_is_refused_everywhere():
    task = EnvTask(name="rware/tiny-2ag", options={"msg_bits": 1})
    with pytest.raises(UserError, match=r"--against=scripted_players:first: .* several at once"):
        find_policies("scripted_players:first", task, "--against", RUNS)
