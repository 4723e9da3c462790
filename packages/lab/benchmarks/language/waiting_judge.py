"""A judge that is far away: it takes time and keeps no core busy. It grades the programs of the writers of
`text/check`."""

import os
import re
import time

import numpy as np

from marless.functions.encoding import JsonDecoder, to_json
from marless.functions.randomness import generator
from marless.functions.resources.code_judge import Assignment

MEDIAN_S = "BENCH_JUDGE_S"
"""The variable with the median of its times in seconds."""
# The standard deviation of the logarithm of a time.
_SIGMA = 0.8
_ASSIGNMENTS = JsonDecoder(Assignment)
_PROGRAM = re.compile(r"print\((\d)([-+*])(\d)\)")
_OPERATORS = {"+": np.add, "-": np.subtract, "*": np.multiply}


def grade(question: bytes) -> bytes:
    """Return 1 for a program with the right output by one operator, else 0. A question takes equally long whenever it
    is asked."""
    assignment = _ASSIGNMENTS.decode(question)
    luck = generator(0, assignment.program, assignment.output).standard_normal()
    time.sleep(float(os.environ[MEDIAN_S]) * float(np.exp(_SIGMA * luck)))
    program = _PROGRAM.fullmatch(assignment.program)
    printed = _OPERATORS[program[2]](int(program[1]), int(program[3])) if program else ""
    return to_json(float(str(printed) == assignment.output))
