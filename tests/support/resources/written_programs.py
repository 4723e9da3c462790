"""Episodes of the example `program_writers`, with texts of agents that a test sets."""

from examples.resources.program_writers import OPERANDS, OPERATORS, TARGETS


def episode(target, expression):
    """Return the question about a finished episode with an expression by agents, such as ``x * x + 1``."""
    words = expression.split()
    goal = [float(index == target) for index in range(len(TARGETS))]
    pairs = zip(words[::2], [*words[1::2], "+"], strict=True)
    actions = [(OPERANDS.index(operand), OPERATORS.index(operator)) for operand, operator in pairs]
    return {"steps": [{"actions": each, "observations": [goal, goal]} for each in actions]}
