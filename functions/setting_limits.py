"""The largest numbers that settings may have. Each follows from a limit of the program or its platform."""

# Rounds have six digits in the keys of objects and of the ledger's items, which are read in the order of their names.
MOST_ROUNDS = 999_999
# The coordinator was measured with so many: docs/results/scale.md.
MOST_ROLLOUTS = 10_000
# The agents' joint observation grows with their square. The largest tasks known have a few hundred.
MOST_AGENTS = 1_000
# A return takes 25 bytes in an evaluator's answer, which has at most 6 MB (the same quotas).
MOST_EPISODES = 100_000
# More copies of an environment, or steps of each, fill no function's memory of 10 GB with a byte for each only.
MOST_ENVS = 1_000_000
MOST_STEPS = 1_000_000
# Of a network's layer, and of layers: with one input, a layer of so many units and its optimiser take 10^8 bytes.
MOST_UNITS = 10_000_000
MOST_LAYERS = 100
# Of a network that kernels compute, outputs included. Kernels that were compiled with another number are not loaded.
MOST_KERNEL_LAYERS = 16
# Rounds between sampling and learning. The run stores a round of trajectories for each. With more, the policies that
# sampled are too far from the policies that learn.
MOST_LAG = 8
# Optimiser steps of a round take a millisecond each at least, and a function has 15 minutes (the same quotas).
MOST_UPDATES = 100_000
# Passes over a round's data, which may be one minibatch.
MOST_EPOCHS = 1_000
# Of a pass over a round by default.
FEWEST_MINIBATCHES = 8
# Environment steps of a whole run: a second of 10^5 steps for a third of a year.
MOST_ENV_STEPS = 10**12
# Learning computes in float32, with 3.4e38 as its largest number, and sums squares.
LARGEST = 1e12
# The largest number of float32, the format of observations and actions in networks and messages.
LARGEST_FLOAT32 = (2 - 2**-23) * 2.0**127
# For Adam, all that float32 holds: then the round that diverges reports it.
LARGEST_STEP = 1e38
# Messages and files hold whole numbers of 64 bits.
MOST_INT = MOST_SEED = 2**63 - 1
# Processes of a machine.
MOST_PROCESSES = 10_000
