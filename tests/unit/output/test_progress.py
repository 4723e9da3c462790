"""Views and commands report their progress."""

from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from ablated_runs import empty_line
from simulated import SPEC, make_plan

from marless.coordinator.config.loading import load
from marless.coordinator.core.state import Evaluated, Slot, State, WorkItem
from marless.functions.messages.evaluator import EvaluateReply
from marless.functions.messages.exchange import Done
from marless.runs.view import EvaluationClock, EvaluationUnderWay, TrainingSpeed, evaluation_under_way
from marless.studies.study_run import StudyRun
from marless.views.plain import PlainView
from marless.views.progress_lines import EVERY_S, FIRST_S, ProgressLines
from marless.views.study_views import LiveTable, PlainLines


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def plan():
    return make_plan("evaluation.episodes=20", "evaluation.final_episodes=70", "stop.rounds=5")


def slot(episodes, answered):
    reply = EvaluateReply(returns=(0.0,) * episodes, agent_returns=(0.0,))
    item = WorkItem(function="evaluator", memory_mb=1769, kind="evaluate", weight=episodes)
    return Slot(item=item, timeout_s=60.0, done=Done(id="", attempt=0, reply=reply) if answered else None)


def evaluating(phase, *answered):
    """A state with answered and unanswered parts of an evaluation, of 10 episodes each."""
    slots = {f"{phase}/{number:03d}": slot(10, each) for number, each in enumerate(answered)}
    return State(phase=phase, round=5, env_steps=4800, slots=slots, spec=SPEC)


def test_evaluation_episodes_count_when_their_function_answers(plan):
    assert str(evaluation_under_way(plan, evaluating("final", True, False, True))) == (
        "final evaluation: 20 of 70 episodes"
    )
    # The absolute metric has ten times the episodes of an evaluation.
    assert evaluation_under_way(plan, evaluating("absolute", False)) == ("absolute metric", 0, 200)
    assert evaluation_under_way(plan, evaluating("round", True, False)) == ("evaluation", 10, 20)
    assert evaluation_under_way(plan, evaluating("round", True, True)) is None
    assert evaluation_under_way(plan, State(phase="round")) is None


def test_rest_of_evaluation_follows_observed_speed():
    clock = EvaluationClock()
    assert clock.seconds_left(EvaluationUnderWay("final evaluation", 40, 100), 7.0) is None
    assert clock.seconds_left(EvaluationUnderWay("final evaluation", 60, 100), 12.0) == 10.0
    assert clock.seconds_left(EvaluationUnderWay("absolute metric", 60, 100), 13.0) is None


def test_training_speed_omits_rounds_with_evaluation():
    speed = TrainingSpeed()
    assert speed.steps_per_second == 0.0
    evaluation = Evaluated(round=0, env_steps=0, returns=(1.0,))
    speed.add(empty_line(round=1, env_steps=100, seconds=10.0, evaluation=evaluation))
    assert speed.steps_per_second == 10.0
    speed.add(empty_line(round=2, env_steps=200, seconds=11.0))
    assert speed.steps_per_second == 100.0
    speed.add(empty_line(round=3, env_steps=300, seconds=31.0, evaluation=evaluation))
    speed.add(empty_line(round=4, env_steps=600, seconds=32.0))
    assert speed.steps_per_second == 200.0


def test_first_resumed_round_has_no_start_to_count():
    speed = TrainingSpeed()
    speed.add(empty_line(round=11, env_steps=1100, seconds=110.0))
    assert speed.steps_per_second == 0.0
    speed.add(empty_line(round=12, env_steps=1200, seconds=112.0))
    assert speed.steps_per_second == 50.0


def test_pipe_reports_progress_only_after_long_silence(capsys, clock, plan):
    view, state = PlainView(clock), evaluating("final", True, False)
    for seconds_later in (0.0, 29.0, 1.0, 29.0):
        clock.now += seconds_later
        view.notice(plan, state, clock.now)
    assert capsys.readouterr() == ("", "round     5 of 5   final evaluation: 10 of 70 episodes   4,800 steps   2:10\n")


def test_study_in_pipe_reports_progress_of_all_runs(capsys, clock):
    config = load(None, ["stop.rounds=10"])
    runs = [
        StudyRun(name, "", 1, "", config, "running", round=count, dollars=0.2) for name, count in (("a", 3), ("b", 4))
    ]
    lines = PlainLines(clock)
    for seconds_later in (1.0, 14.0, 14.0, 1.0):
        clock.now += seconds_later
        lines.look(SimpleNamespace(runs=runs))
    runs_text = "2 runs: 2 running   7 of 20 rounds   $0.40"
    assert capsys.readouterr().err == f"{runs_text}   15.0 s\n{runs_text}   30.0 s\n"


def test_last_study_frame_shows_end_of_all_runs():
    """The runs end sooner after a frame than the next frame is due."""
    runs = [StudyRun(name, "", 1, "", load(None, ["stop.rounds=10"]), "running") for name in ("a", "b")]
    frames = []
    surface = SimpleNamespace(height=40, draw=frames.append, stop=lambda: None)
    table, campaign = LiveTable(surface), SimpleNamespace(runs=runs, folder=Path("studies/lr"))
    table.look(campaign)
    for run in runs:
        run.status = "finished"
    table.look(campaign)
    table.close()
    titles = [frame.renderables[0].plain for frame in frames]
    assert ["2 runs: 2 running" in titles[0], "2 runs: 2 finished" in titles[-1]] == [True, True]


def test_command_in_pipe_reports_early_then_rate_limited(capsys, clock):
    lines = ProgressLines(clock)
    for number, seconds_later in enumerate((0.0, FIRST_S, EVERY_S / 2, EVERY_S / 2), 1):
        clock.now += seconds_later
        lines.show(f"{number} of 4 pairs")
    assert capsys.readouterr().err == "2 of 4 pairs\n4 of 4 pairs\n"


def test_on_a_terminal_the_line_is_replaced(shell):
    terminal = StringIO()
    terminal.isatty = lambda: True
    shell.export(TERM="xterm")
    with redirect_stderr(terminal):
        ProgressLines().show("1 of 3 pairs")
        ProgressLines().show("2 of 3 pairs")
    assert terminal.getvalue() == "\r\033[K1 of 3 pairs\r\033[K2 of 3 pairs"
