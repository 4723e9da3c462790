"""Episodes of the example `program_writers`, in which agents wrote what a test says."""

from examples.resources.program_writers import OPERANDS, OPERATORS, TARGETS


def episode(target, expression):
    """The question about a finished episode in which agents wrote an expression such as ``x * x + 1``."""
    words = expression.split()
    goal = [float(index == target) for index in range(len(TARGETS))]
    pairs = zip(words[::2], [*words[1::2], "+"], strict=True)
    actions = [(OPERANDS.index(operand), OPERATORS.index(operator)) for operand, operator in pairs]
    return {"steps": [{"actions": each, "observations": [goal, goal]} for each in actions]}
