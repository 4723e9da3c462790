"""The families of the built-in algorithms, by capability. Agents of other ones speak."""

from marless.functions.algorithms.registry import ALGORITHMS
from marless.functions.algorithms.specification import AlgorithmSpec


def family(spec: AlgorithmSpec) -> str:
    """`on-policy` without a replay buffer. Otherwise `actor-critic` with a critic and a policy, and `value` without."""
    if not spec.config().replayed_steps:
        return "on-policy"
    return "actor-critic" if "critic" in spec.parts else "value"


def named(kind: str) -> tuple[str, ...]:
    return tuple(spec.name for spec in ALGORITHMS.ours() if family(spec) == kind and not spec.function)
