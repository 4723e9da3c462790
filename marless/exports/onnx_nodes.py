"""The nodes and constants of an ONNX graph that is written node by node."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper, numpy_helper

OPSET = 18


class Nodes:
    """Nodes and constants in order. Every method returns the name of its value."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.opsets = [helper.make_opsetid("", OPSET)]
        self.functions: list[Any] = []

    def constant(self, array: NDArray[Any]) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def numbers(self, *values: float) -> str:
        return self.constant(np.array(values, np.float32))

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        return self.split(operator, *inputs, parts=1, **attributes)[0]

    def split(self, operator: str, *inputs: str, parts: int, **attributes: Any) -> list[str]:
        outputs = [f"value_{len(self.nodes)}_{part}" for part in range(parts)]
        self.nodes.append(helper.make_node(operator, inputs, outputs, **attributes))
        return outputs

    def name_output(self, value: str, name: str) -> None:
        """Gives a value the name of an output."""
        self.nodes.append(helper.make_node("Identity", [value], [name]))
