"""How large messages get as JSON, and how large a platform lets them be.

Objects inside messages are base64, four bytes for three. What else a message holds was measured on real requests and
answers of all kinds of tasks; the constants lie above what was seen, and a test holds them against real messages.
"""

# What Lambda takes and gives back (developer guide, "Lambda quotas": invocation payload): of a call that is waited for,
# and of one that is not.
SYNCHRONOUS_BYTES = 6 * 2**20
ASYNCHRONOUS_BYTES = 2**20
# An answer that nobody waits for is in the header of an object, which the format limits (safetensors, "Format").
HEADER_BYTES = 100_000_000

# A task's address, hyperparameters and options, or an answer's; seen: 1.3 KB.
ENVELOPE_BYTES = 4096
# A reference to an object, and its key once more where the object is in the message; seen: 170 and 70 bytes.
REF_BYTES = 300
# A unit's number in a request; an agent's name and group in it, of the team and of another one.
ROLLOUT_BYTES = 6
AGENT_BYTES = 128
# A number as text.
NUMBER_BYTES = 25
# Figures of a stage for a group, its summaries' among them; seen: 5 of 47 bytes. Of an environment's own: at most 32.
METRICS_BYTES = 10 * 64
# Figures of an agent in a group of several; seen: 4 of 51 bytes.
AGENT_METRICS_BYTES = 5 * 64
SCALARS_BYTES = 32 * 64
# What names a table and its shape; seen: 45 bytes.
TABLE_BYTES = 96


def base64_bytes(size: float) -> float:
    """Bytes that objects of `size` bytes take inside a message."""
    return size * 4 / 3


def request_bytes(refs: int, rollouts: int, agents: int) -> float:
    """A request without the objects it may carry; `refs` objects are named in it."""
    return ENVELOPE_BYTES + refs * REF_BYTES + rollouts * ROLLOUT_BYTES + agents * AGENT_BYTES


def answer_bytes(refs: int, reply: float) -> float:
    """An answer around a reply of `reply` bytes, without the objects it may carry."""
    return ENVELOPE_BYTES + refs * REF_BYTES + reply


def sampling_bytes(rollouts: int, rollout_episodes: int, agents: int) -> float:
    """What sampling `rollouts` units gives in one round: a return an episode, and one a unit and agent."""
    return SCALARS_BYTES + rollouts * (rollout_episodes + agents) * NUMBER_BYTES


def learning_bytes(stages: int, groups: int, agents: int, table_bytes: float, sharing: int = 0) -> float:
    """What learning gives in one round: figures of every stage and group, and of each of `sharing` agents that share
    networks; two tables an agent, `table_bytes` in all."""
    metrics = stages * groups * METRICS_BYTES + sharing * AGENT_METRICS_BYTES
    return metrics + 2 * agents * TABLE_BYTES + base64_bytes(table_bytes)
