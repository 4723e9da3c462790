"""Sizes of messages as JSON, and the platform's limits.

Objects inside messages are base64, four bytes for three. The rest of a message was measured on requests and answers of
all kinds of tasks. The constants are above the measurements, and a test compares them with real messages.
"""

# Lambda's limits of the payload of synchronous and asynchronous invocations (developer guide, "Lambda quotas").
SYNCHRONOUS_BYTES = 6 * 2**20
ASYNCHRONOUS_BYTES = 2**20
# The answer to an asynchronous invocation is in the header of an object, which safetensors limits ("Format").
HEADER_BYTES = 100_000_000

# Address, hyperparameters and options of a task or an answer. Measured: 1.3 KB.
ENVELOPE_BYTES = 4096
# A reference to an object, and the key of an inlined object. Measured: 170 and 70 bytes.
REF_BYTES = 300
# A rollout's number in a request. An agent's name and group, in its team and in another team.
ROLLOUT_BYTES = 6
AGENT_BYTES = 128
# A number as text.
NUMBER_BYTES = 25
# Metrics of a stage for a group, with summaries. Measured: 5 of 47 bytes. Env metrics: at most 32.
METRICS_BYTES = 10 * 64
# Metrics of an agent in a group of several. Measured: 4 of 51 bytes.
AGENT_METRICS_BYTES = 5 * 64
SCALARS_BYTES = 32 * 64
# Name and shape of a table. Measured: 45 bytes.
TABLE_BYTES = 96


def base64_bytes(size: float) -> float:
    """Bytes of objects of `size` bytes inside a message."""
    return size * 4 / 3


def request_bytes(refs: int, rollouts: int, agents: int) -> float:
    """Bytes of a request that names `refs` objects, without inlined objects."""
    return ENVELOPE_BYTES + refs * REF_BYTES + rollouts * ROLLOUT_BYTES + agents * AGENT_BYTES


def answer_bytes(refs: int, reply: float) -> float:
    """Bytes of an answer with a reply of `reply` bytes, without inlined objects."""
    return ENVELOPE_BYTES + refs * REF_BYTES + reply


def sampling_bytes(rollouts: int, rollout_episodes: int, agents: int) -> float:
    """Bytes of the reply to sampling `rollouts` in one round: a return per episode, and one per rollout and agent."""
    return SCALARS_BYTES + rollouts * (rollout_episodes + agents) * NUMBER_BYTES


def learning_bytes(stages: int, groups: int, agents: int, table_bytes: float, sharing: int = 0) -> float:
    """Return the bytes of the reply to one round's learning. It has metrics of every stage and group, and of `sharing`
    agents that share networks. It has two tables per agent, `table_bytes` in all, or none."""
    metrics = stages * groups * METRICS_BYTES + sharing * AGENT_METRICS_BYTES
    return metrics + (2 * agents * TABLE_BYTES + base64_bytes(table_bytes) if table_bytes else 0.0)
