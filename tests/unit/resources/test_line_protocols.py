"""Programs that answer lines: an answer belongs to its question, or there is none."""

import json
import random
import shlex
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from marless.functions.resources.port import ResourceCall
from marless.functions.resources.serving.kinds.command import begin
from marless.functions.resources.serving.kinds.kind import NoAnswer
from marless.functions.resources.settings import Resource

PROGRAM = Path(__file__).parents[2] / "support/resources/line_judge.py"
# A start of Python without packages.
PYTHON = [sys.executable, "-S", "-E"]
PINGED = {"ping": "sync", "ready": "synced"}
ONE_LINE = "without until a question is one line, and this one has a line break"
MORE = "it printed more than its answer, which ends with"


def judge(plan, **settings):
    command = shlex.join([*PYTHON, str(PROGRAM), json.dumps(plan)])
    return closing(begin("judge", Resource(**{"command": command, "timeout_s": 20.0} | settings)))


def heard(program, questions):
    answers = []
    for question in questions:
        try:
            answers.append(program.answer(ResourceCall(question), 1).decode())
        except NoAnswer as fault:
            answers.append(fault)
    return answers


def ask(plan, questions=(b"q0", b"q1"), **settings):
    with judge(plan, **settings) as program:
        return heard(program, questions)


def unclear(settings, input_):
    """The fault of a program with an answer like a line of its banner."""
    if input_:
        return "it has ended: exit status 1"
    return f"{MORE} a line that starts with 'answer'" if settings else f"{MORE} one line"


def faults(answers):
    return [str(answer).partition(";")[0] for answer in answers if isinstance(answer, NoAnswer)]


@pytest.mark.parametrize("plan", [{}, {"input": True}, {"answers": "first"}, {"answers": "whole"}])
def test_a_program_answers_with_its_only_line(plan):
    assert ask(plan) == ["answer to q0", "answer to q1"]


@pytest.mark.parametrize("seconds", [0.0, 0.1])
@pytest.mark.parametrize("part", ["before", "after", "later"])
def test_a_line_too_many_is_a_fault(part, seconds):
    assert faults(ask({part: [[seconds, "answer to q1"]]})) == [f"{MORE} one line"] * 2


@pytest.mark.parametrize("until", [{}, {"until": "answer"}])
@pytest.mark.parametrize("input_", [False, True])
def test_lines_printed_without_question_are_no_answer(input_, until):
    plan = {"banner": [[0.1, "answering machine"], [0.1, "answer to q9"]], "input": input_}
    assert ask(plan, **until) == ["answer to q0", "answer to q1"]
    assert faults(ask(plan, [b"q9"], **until)) == [unclear(until, input_)]


def test_a_line_of_another_thread_is_no_answer():
    plan = {"meanwhile": [[0.05, "answer to q1"]], "before": [[0.2, "answer to q2"]]}
    assert faults(ask(plan)) == [f"{MORE} one line"] * 2
    del plan["before"]
    answers = ask(plan)
    assert all(isinstance(answer, NoAnswer) or answer == f"answer to q{n}" for n, answer in enumerate(answers))


@pytest.mark.parametrize("status", [{}, {"input": True}])
def test_banner_is_no_answer_of_crashed_program(status):
    plan = {"banner": [[0.0, "answer to q0"]], "crash": True} | status
    assert faults(ask(plan)) == ["it has ended: exit status 3"] * 2
    assert faults(ask(plan, until="answer")) == ["it has ended: exit status 3"] * 2


def test_banner_is_skipped_to_ready_line():
    banner = {"banner": [[0.1, "Engine 1.0"], [0.1, "ready for questions"]]}
    assert ask(banner, ready="ready") == ["answer to q0", "answer to q1"]
    assert ask(banner | {"input": True}, ready="ready") == ["answer to q0", "answer to q1"]
    assert (
        faults(ask({}, timeout_s=0.3, ready="ready")) == ["it has printed no line that starts with 'ready' (ready)"] * 2
    )


def test_answer_of_lines_has_all_output_to_end():
    plan = {"banner": [[0.1, "Engine 1.0"]], "before": [[0.0, "thinks"]], "until": "end", "after": [[0.1, "bye"]]}
    for input_ in (False, True):
        answers = ask(plan | {"input": input_}, until="end")
        assert answers == [f"Engine 1.0\nthinks\nanswer to {question}\nend" for question in ("q0", "q1")]


@pytest.mark.parametrize("part", ["after", "later"])
def test_second_end_of_answer_is_fault(part):
    plan = {"until": "end", part: [[0.1, "end of something"]]}
    assert faults(ask(plan, until="end")) == [f"{MORE} a line that starts with 'end'"] * 2


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (b"", "answer to "),
        (b"a\0b", "answer to a\0b"),
        (b"a\n", "answer to a"),
        ("a\u2028b".encode(), "answer to a\u2028b"),
        (b"a\nb", ONE_LINE),
        (b"a\r\nb", ONE_LINE),
        (b"a\rb", ONE_LINE),
    ],
)
def test_question_with_line_break_is_isolated_fault(question, answer):
    answers = ask({}, [b"q0", question, b"q1"])
    assert answers[::2] == ["answer to q0", "answer to q1"]
    assert str(answers[1]).startswith(answer)


def test_program_that_reads_part_of_question_is_fault():
    said = "it ended before it had read the whole question"
    with closing(begin("judge", Resource(command="sh -c 'read line; echo end'", until="end"))) as program:
        assert heard(program, [b"q0"]) == ["end"]
        assert faults(heard(program, [b"a\nb"])) == [said]
    with closing(begin("judge", Resource(command="echo 1"))) as program:
        assert faults(heard(program, [b"q0"])) == [said]


def test_program_that_continues_without_input_is_fault():
    with closing(begin("judge", Resource(command="sh -c 'read l; echo $l; exec sleep 60'", timeout_s=2.0))) as program:
        assert faults(heard(program, [b"q0"])) == ["it goes on after the end of its input"]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"timeout_s": 2.0}, "it goes on after the end of its input"),
        ({"until": "end"}, "no answer within 0.3 s"),
        ({"ready": "ready"}, "it has printed no line that starts with 'ready' (ready)"),
        ({"tagged": True}, "no answer within 0.3 s"),
    ],
)
def test_endlessly_printing_program_is_fault_at_timeout(settings, says):
    """It prints 16 MiB of lines long before they could all be looked at."""
    with closing(begin("judge", Resource(command="yes", **{"timeout_s": 0.3} | settings))) as program:
        assert faults(heard(program, [b"q0"])) == [says]


def test_tagged_programs_are_kept_and_print_freely():
    noise = [[0.02, "answer to q9"], [0.02, "0123456789abcdef answer to q9"], [0.02, "noise"]]
    plan = {"form": "tagged", **dict.fromkeys(["banner", "meanwhile", "before", "after", "later"], noise)}
    with judge(plan, tagged=True) as program:
        assert heard(program, [b"q0", b"", b"q1"]) == ["answer to q0", "answer to ", "answer to q1"]
        process = program._running()
        assert heard(program, [b"q2"]) == ["answer to q2"]
        assert program._running() is process


@pytest.mark.parametrize("break_", ["\n", "\r", "\u2028", "\x85", "\v"])
def test_a_tagged_question_has_one_line(break_):
    answers = ask({"form": "tagged"}, [f"a{break_}b".encode(), b"q1\n"], tagged=True)
    assert faults(answers)[0].startswith(ONE_LINE)
    assert answers[1] == "answer to q1"


def test_pinged_programs_are_kept():
    plan = {"form": "pinged", "banner": [[0.1, "Engine 1.0"]]}
    with judge(plan, **PINGED) as program:
        assert heard(program, [b"q0", b"q1"]) == ["answer to q0", "answer to q1"]
        process = program._running()
        assert heard(program, [b"q2"]) == ["answer to q2"]
        assert program._running() is process


@pytest.mark.parametrize("part", ["before", "after"])
@pytest.mark.parametrize("text", ["answer to q1", "synced"])
def test_extra_line_of_pinged_program_is_never_mixed(part, text):
    """A second line that says ready comes between two questions: then the program is begun again."""
    answers = ask({"form": "pinged", part: [[0.05, text]]}, [b"q0", b"q1", b"q2"], **PINGED)
    assert all(answer == f"answer to q{n}" or isinstance(answer, NoAnswer) for n, answer in enumerate(answers))
    if (part, text) != ("after", "synced"):
        assert len(faults(answers)) == 3


def drawn_plan(draw):
    """A plan with random lines at random moments, some of them like answers to other questions."""
    texts = ["answer to q0", "answer to q1", "answer to q2", "", "noise", "end", "synced"]

    def lines():
        return [[draw.choice([0.0, 0.0, 0.01, 0.05]), draw.choice(texts)] for _ in range(draw.choice([0, 0, 0, 1, 2]))]

    plan = {part: lines() for part in ("banner", "meanwhile", "before", "after", "later")}
    return plan | draw.choice([{}, {"input": True}, {"daemon": True}, {"crash": True}])


def asked_at_random(seed, plans):
    """Count the answers and the faults of programs with random lines. A wrong answer fails the test."""
    draw, count = random.Random(seed), Counter()
    for _ in range(plans):
        plan = drawn_plan(draw)
        settings = draw.choice([{}, {}, {"until": "end"}, {"tagged": True}])
        plan |= {"until": "end"} if "until" in settings else {"form": "tagged"} if settings else {}
        questions = [b"q0", draw.choice([b"q1", b"q1\nq2", b"q1\rq2", b""]), b"q2"]
        for question, answer in zip(questions, ask(plan, questions, **settings), strict=True):
            if not isinstance(answer, NoAnswer):
                *lines, last = answer.split("\n") if "until" in settings else (answer, "end")
                assert last.startswith("end"), (plan, answer)
                own = f"answer to {question.decode()}"
                assert own in lines, (plan, settings, question, answer)
            count[isinstance(answer, NoAnswer)] += 1
    return count


def test_no_question_is_answered_by_lines_of_another():
    count = asked_at_random(seed=56, plans=12)
    assert min(count[False], count[True]) > 4


@pytest.mark.slow
def test_no_question_gets_lines_of_another():
    count = asked_at_random(seed=57, plans=80)
    assert min(count[False], count[True]) > 25
