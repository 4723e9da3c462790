"""The examples of resources compute figures that are known by hand. test_resource_runs.py trains whole runs."""

import json
import math
from contextlib import closing
from itertools import product

import numpy as np
import pytest
from installed_commands import STOCKFISH, needs_bubblewrap, needs_stockfish
from written_programs import episode

from examples.resources import heated_plate, program_writers
from marless.environments import EnvTask, check
from marless.functions.encoding import from_json, to_json
from marless.functions.environments import registry
from marless.functions.resources.port import ResourceCall
from marless.functions.resources.serving.kinds.registry import begin
from marless.functions.resources.serving.sandbox import Sandbox
from marless.functions.resources.settings import Resource

SANDBOX = Sandbox("none", timeout_s=20, memory_mb=256)


@pytest.mark.parametrize(
    ("target", "words", "share"),
    [
        (0, "x * x + 1", 1.0),  # x² + 1
        (0, "x + x + 1", 0.2),  # equal at 0 and 2
        (1, "2 * x + 3", 1.0),
        (3, "3 - x * 2", 1.0),
        (3, "3 - x - x", 1.0),
        (4, "x * x * x", 1.0),
        (5, "x + 1 - 3", 1.0),
        (6, "1 - x * x", 1.0),
        (7, "x - 1 * 1", 0.0),  # 3 x - 2 = x - 1 at no whole number
    ],
)
def test_a_program_is_graded_by_what_it_prints(target, words, share):
    question = to_json(episode(target, words))
    assert from_json(program_writers.grade(question, SANDBOX), float) == share


def test_each_target_can_be_written():
    reached = {
        tuple(eval(f"{a} {p} {b} {q} {c}", {"x": x}) for x in program_writers.INPUTS)
        for a, b, c in product(program_writers.OPERANDS, repeat=3)
        for p, q in product(program_writers.OPERATORS, repeat=2)
    }
    assert all(tuple(map(target, program_writers.INPUTS)) in reached for target in program_writers.TARGETS)


def test_even_plate_conducts_like_discrete_laplacian():
    """Its modes are products of sines, with the eigenvalues 4 - 2 cos - 2 cos."""
    cells = heated_plate.CELLS
    matrix = heated_plate.conduction(np.ones((cells + 2, cells + 2)))
    angles = np.pi * np.array([2, 5]) / (cells + 1)
    mode = np.outer(*(np.sin(angle * np.arange(1, cells + 1)) for angle in angles)).ravel()
    np.testing.assert_allclose(matrix @ mode, (4 - 2 * np.cos(angles).sum()) * mode, atol=1e-12)


def test_solver_gives_same_bits_with_any_cores():
    question = to_json({"places": [[3, 4], [12, 12], [20, 5]], "plates": 5})
    assert len({heated_plate.solve(question, cores) for cores in (1, 2, 3)}) == 1


class Scripted:
    def __init__(self, answer):
        self.answer, self.asked = answer, []

    def call(self, name, questions):
        self.asked += [(name, question) for question in questions]
        return [self.answer(question) for question in questions]


def test_heaters_are_paid_for_what_their_moves_gain():
    plate = heated_plate.make(Scripted(lambda question: to_json(float(np.sum(json.loads(question)["places"])))))
    plate.reset(seed=1)
    before = plate.places.sum()
    _, rewards, *_ = plate.step({"heater_0": 2, "heater_1": 0})
    moved = plate.places.sum() - before
    assert rewards == dict.fromkeys(plate.possible_agents, -moved / 2)


def chess_game(answer, **options):
    pytest.importorskip("chess", reason="chess is not installed: pip install 'pettingzoo[classic]'")
    from examples.resources import chess_engine

    game = chess_engine.make(Scripted(answer), **options)
    game.reset()
    return game


def legal(game):
    return np.flatnonzero(game.observe(game.agent_selection)["action_mask"])


def test_move_is_paid_by_change_of_engine_score():
    """White to move is at 0, then black to move thinks itself 400 points behind: white wins ten games of eleven."""
    game = chess_game(lambda question: b"info score cp %d nodes 9\nbestmove e7e5" % (-400 if b" b " in question else 0))
    game.step(legal(game)[0])
    assert game.rewards == pytest.approx({"player_0": 10 / 11 - 1 / 2, "player_1": 1 / 2 - 10 / 11})


def test_engine_move_is_part_of_white_turn():
    game = chess_game(lambda _: b"info score cp 0 nodes 9\nbestmove e7e5 ponder g1f3", opponent=True)
    game.step(legal(game)[0])
    assert game.agents == ["player_0"] and game.agent_selection == "player_0"
    assert game.unwrapped.board.peek().uci() == "e7e5"
    question = game.resources.asked[-1][1].decode()
    assert question.startswith("ucinewgame\nposition fen rnbqkbnr/pppp1ppp/") and question.endswith("\ngo nodes 200")


def test_bounds_of_a_search_are_no_opinion():
    game = chess_game(lambda _: b"info score cp 100 nodes 9\ninfo score cp 7 upperbound nodes 9\nbestmove e2e4")
    assert game.white == pytest.approx(1 / (1 + 10**-0.25))


def test_a_mated_king_is_lost():
    game = chess_game(lambda _: b"info depth 0 score mate 0 nodes 9\nbestmove (none)")
    assert game.white == pytest.approx(0, abs=1e-20)


def test_reward_model_tells_probability_of_policy_action(tmp_path, shell):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'marless[networks,export]'")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'marless[networks]'")
    from examples.resources import reward_model

    helper = onnx.helper
    weights = helper.make_tensor("weights", onnx.TensorProto.FLOAT, [2, 3], [1.0, 0.0, 0.0, 0.0, 2.0, 0.0])
    observation, outputs = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None, width])
        for name, width in (("observation", 2), ("outputs", 3))
    )
    node = helper.make_node("MatMul", ["observation", "weights"], ["outputs"])
    graph = helper.make_graph([node], "linear", [observation], [outputs], [weights])
    folder = tmp_path / reward_model.MODEL
    folder.mkdir(parents=True)
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)]), folder / "a.onnx")
    (folder / "policies.json").write_text(json.dumps({"agents": {"a": {"file": "a.onnx"}}}))
    shell.cd(tmp_path)
    answer = from_json(reward_model.score(to_json({"a": [[1.0, 1.0], 1]})), dict[str, float])
    assert answer["a"] == pytest.approx(2 - math.log(math.exp(1) + math.exp(2) + 1), abs=1e-6)


def test_writers_environment_keeps_environment_promises():
    task = EnvTask(name="pettingzoo:examples.resources.program_writers:make")
    # Two episodes of eight may have the same target.
    check(lambda num_envs: registry.make(task, num_envs), random_starts=False)


def position(board, nodes=500):
    return f"ucinewgame\nposition fen {board}\ngo nodes {nodes}".encode()


@needs_stockfish
@pytest.mark.parametrize("sandbox", ["none", pytest.param("bubblewrap", marks=needs_bubblewrap)])
def test_stockfish_repeats_moves_after_any_history(sandbox):
    opening = position("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1")
    reply = position("rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1")

    def moves(*questions):
        with closing(begin("engine", Resource(command=STOCKFISH, until="bestmove", sandbox=sandbox))) as engine:
            answers = [engine.answer(ResourceCall(each), cores=1) for each in questions]
            return [answer.rpartition(b"bestmove ")[2].split()[0] for answer in answers]

    first, _, again = moves(opening, reply, opening)
    assert [first] == [again] == moves(opening)
