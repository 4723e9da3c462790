"""Grades of programs, counted by hand."""

import pytest
from installed_commands import needs_bubblewrap

from marless.functions.encoding import Undecodable, from_json, to_json
from marless.functions.resources.code_judge import grade
from marless.functions.resources.serving.sandbox import Sandbox

SQUARES = {"input": "1 2 3 4", "output": "1\n4\n9\n16\n"}
IN_PROCESS = Sandbox("none", timeout_s=20, memory_mb=256)


def grade_of(program, sandbox=IN_PROCESS, **case):
    return from_json(grade(to_json({"program": program, **SQUARES, **case}), sandbox), float)


@pytest.mark.parametrize(
    ("power", "share"), [("n ** 2", 1.0), ("n * 2", 0.25), ("n ** 2 if n % 2 else 0", 0.5), ("'no number'", 0.0)]
)
def test_grade_is_share_of_right_lines(power, share):
    assert grade_of(f"for n in map(int, input().split()): print({power})") == share


def test_extra_line_counts_as_wrong():
    assert grade_of("print('1\\n4\\n9\\n16\\n25')") == 0.8


@pytest.mark.parametrize("end", ["1 / 0", "raise SystemExit(1)", "import os; os.abort()"])
def test_program_that_ends_badly_has_grade_0(end):
    assert grade_of(f"print('1\\n4\\n9\\n16', flush=True)\n{end}") == 0.0


def test_a_program_that_hangs_has_the_grade_0():
    assert grade_of("while True: pass", Sandbox("none", timeout_s=0.3, memory_mb=256)) == 0.0


def test_a_question_that_is_no_assignment_is_refused():
    with pytest.raises(Undecodable, match="program"):
        grade(b'{"output": "1"}', IN_PROCESS)


@needs_bubblewrap
def test_a_program_finds_nothing_of_its_judge():
    look = """
import gc, os, sys
frames, frame = [], sys._getframe()
while frame:
    frames.append(frame.f_globals.get("__name__"))
    frame = frame.f_back
print([name for name in sys.modules if name.startswith("marless.")], len(os.listdir("/proc/self/fd")) < 8)
print("16" in open("/proc/self/cmdline").read().split(chr(0)), os.listdir("/tmp"))
"""
    sandbox = Sandbox("bubblewrap", timeout_s=20, memory_mb=256)
    assert grade_of(look, sandbox, output="[] True\nFalse []") == 1.0
