"""Roles learn the same for any workers, placement of rounds, and kills."""

import pytest
from language_runs import speak, task_base

TWO, LAG = "actors.rollouts=2", "pipeline.lag=1"


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The same rounds, one task after the other in one process."""
    return speak(tmp_path_factory.mktemp("language"), TWO)


def test_roles_are_agents_that_learn(alone):
    assert alone.state.status == "finished"
    assert alone.state.env_spec.agents == ("speaker", "adder")
    assert [line.env_steps for line in alone.lines] == [64, 128, 192]
    assert {"policy/policy_loss/g00", "policy/policy_loss/g01"} <= {*alone.lines[-1].metrics}
    assert set(alone.lines[-1].env_metrics) == {"success", "literal_messages"}
    # Two networks, on one slot of one learner.
    assert (alone.lines[-1].groups, alone.lines[-1].learners) == (2, 1)


@pytest.mark.parametrize(
    "elsewhere",
    [
        ("placement.rule=packed",),
        ("placement.rule=split", "placement.pack=2"),
        ("placement.inline_objects=true",),
    ],
)
def test_placement_changes_no_weight(tmp_path, alone, elsewhere):
    assert speak(tmp_path, TWO, *elsewhere).sha256 == alone.sha256


STREAMED = ("actors.rollouts=3", "pipeline.micro_batch=2")


@pytest.mark.slow
@pytest.mark.parametrize("settings", [(TWO,), (TWO, LAG), STREAMED])
def test_the_number_of_workers_changes_no_weight(tmp_path, settings):
    runs = [speak(tmp_path / str(workers), *settings, workers=workers) for workers in (1, 2)]
    assert runs[0].sha256 == runs[1].sha256


@pytest.mark.parametrize("works", ["sample", "learn"])
def test_a_kill_changes_no_weight(tmp_path, alone, works):
    def leave(state):
        return state.round == 1 and any(name.startswith(works) for name in state.slots)

    assert speak(tmp_path, TWO, leave=leave).state.status == "running"
    assert speak(tmp_path, TWO).sha256 == alone.sha256


def test_micro_batches_change_no_weight_for_any_placement(tmp_path):
    runs = [speak(tmp_path / rule, *STREAMED, f"placement.rule={rule}") for rule in ("fused", "packed")]
    assert runs[0].sha256 == runs[1].sha256
    assert runs[0].lines[-1].metrics == runs[1].lines[-1].metrics


def test_round_learns_from_previous_round_in_any_placement(tmp_path, alone):
    runs = [speak(tmp_path / rule, TWO, LAG, f"placement.rule={rule}") for rule in ("fused", "packed")]
    assert runs[0].sha256 == runs[1].sha256 != alone.sha256


def test_one_adapter_for_all_roles_is_another_run(tmp_path, alone):
    together = speak(tmp_path, TWO, "sharing.rule=all")
    assert together.state.groups == (0,)
    assert together.sha256 != alone.sha256


TICTACTOE, OPTIONS = "text:pettingzoo.classic.tictactoe_v3:env", {"horizon": 9, "sides": "player_1,player_2"}
GAME = (
    f"task.name={TICTACTOE}", "task.options.horizon=9", "task.options.sides='player_1,player_2'",
    "actors.num_envs=8", "stop.rounds=2", "evaluation.final_episodes=2",
)  # fmt: skip


@pytest.mark.slow
def test_early_ended_games_are_equal_in_any_placement(tmp_path):
    base = task_base(TICTACTOE, **OPTIONS)
    split = speak(tmp_path / "split", *GAME, TWO, "placement.rule=split", workers=2, base=base)
    alone = speak(tmp_path / "alone", *GAME, TWO, base=base)
    assert split.sha256 == alone.sha256
    # Steps count only replies that were asked for: eight games of five to nine turns in each of two rollouts.
    first, second = (line.env_steps for line in alone.lines)
    assert all(16 * 5 <= steps < 16 * 9 for steps in (first, second - first))
    assert all(line.env_metrics == {"over": 1.0} for line in alone.lines)
