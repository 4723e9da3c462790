"""The losses that the kernels compute, with the arrays that they read."""

from ctypes import byref
from typing import Any, NamedTuple

import numpy as np

from marless.functions.native.interface import PolicyRowsFields, ValueRowsFields
from marless.functions.native.kernels import address, require_indices
from marless.functions.nn.discrete import OneChoice
from marless.functions.nn.layers import Array
from marless.functions.nn.losses import ROW_METRICS, ClippedPolicyLoss, ClippedValueLoss


class PolicyStep(NamedTuple):
    """The report of a policy's minibatch, see `marless.functions.nn.losses.PolicyLoss`. The gradient stays in C."""

    surrogate: float
    metrics: Array

    @property
    def rows(self) -> dict[str, Array]:
        """Metrics of each row ``[B]``."""
        return dict(zip(ROW_METRICS, self.metrics, strict=True))


class ValueStep(NamedTuple):
    """The report of a critic's minibatch, see `marless.functions.nn.losses.ValueLoss`."""

    loss: float


class NativePolicyLoss:
    """`ClippedPolicyLoss` of one choice, with so many `metrics` of every row."""

    metrics = len(ROW_METRICS)

    def __init__(self, loss: ClippedPolicyLoss) -> None:
        self._loss = loss
        self._actions = np.ascontiguousarray(loss.actions, np.int64)
        self._legal = None if loss.legal is None else np.ascontiguousarray(loss.legal).view(np.uint8)

    def fields(self, rows: int, outputs: int) -> tuple[Any, Any]:
        """Pointers to `PolicyRowsFields` and `ValueRowsFields`, one of them None, for so many rows and outputs.

        Raises `ValueError` for arrays of other shapes or types, and for actions that there are not.
        """
        require_indices(self._actions, outputs)
        loss = self._loss
        fields = PolicyRowsFields(
            address(self._actions, np.int64, (rows,)),
            address(loss.log_probability, np.float32, (rows,)),
            address(loss.advantage, np.float32, (rows,)),
            None if self._legal is None else address(self._legal, np.uint8, (rows, outputs)),
            loss.clip,
            loss.entropy_weight,
        )
        return byref(fields), None

    def of(self, loss: float, metrics: Array) -> PolicyStep:
        """The loss of a minibatch, by its mean and the metrics ``[metrics, B]`` that the kernels wrote for its rows."""
        return PolicyStep(loss, metrics)


class NativeValueLoss:
    """`ClippedValueLoss`."""

    metrics = 0

    def __init__(self, loss: ClippedValueLoss) -> None:
        self._loss = loss

    def fields(self, rows: int, outputs: int) -> tuple[Any, Any]:
        """See `NativePolicyLoss`."""
        if outputs != 1:
            raise ValueError(f"a critic has one output, not {outputs}")
        values = [address(array, np.float32, (rows,)) for array in (self._loss.old_values, self._loss.targets)]
        return None, byref(ValueRowsFields(*values, self._loss.clip, self._loss.delta))

    def of(self, loss: float, metrics: Array) -> ValueStep:
        """See `NativePolicyLoss`."""
        return ValueStep(loss)


NativeLoss = NativePolicyLoss | NativeValueLoss
"""A loss that the kernels compute."""


def native_loss(loss: Any) -> NativeLoss | None:
    """The loss in C, or None if C lacks it."""
    if isinstance(loss, ClippedPolicyLoss) and isinstance(loss.head, OneChoice):
        return NativePolicyLoss(loss)
    return NativeValueLoss(loss) if isinstance(loss, ClippedValueLoss) else None
