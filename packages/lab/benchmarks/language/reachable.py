"""The rewards of a frozen model in `text/relay`, and the reachable reward of one role if the other role does not
change.

    python -m benchmarks.language.reachable docs/results/language/reachable_relay.csv examples/relay.toml

From the model's probabilities, without a run. The pairs (x, y) are equally likely. Let p(m | x) be the probability that
the speaker writes m for x, and q(s | m, y) the probability of the adder's sum s,

    start         the mean over pairs of Σ_m p(m | x) q(x + y | m, y)
    adder alone   Σ_y Σ_m max_x p(m | x) over the number of pairs: for each m and y the best answer is the likeliest x
    speaker alone Σ_x max_m Σ_y q(x + y | m, y) over the number of pairs: for each x the best message
"""

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.language.relays import RelayPrompts
from marless.cli.arguments import split
from marless.coordinator.config.loading import load
from marless_language.adapter_layout import AdapterLayout
from marless_language.model.base_model import open_base
from marless_language.model.sampling import sample
from marless_language.model.speaker import Speaker
from marless_language.protocol import Turn
from marless_language.runs.language_models import model_file

Probabilities = NDArray[np.float64]


class Levels(NamedTuple):
    """The success of sampled episodes."""

    start: float
    adder_alone: float
    speaker_alone: float


def levels(speaker: Probabilities, adder: Probabilities) -> Levels:
    """Compute the levels from p ``[x, m]`` and q ``[m, y, s]``. Pairs need a sum that is a number too."""
    numbers = len(speaker)
    is_pair = np.add.outer(range(numbers), range(numbers)) < numbers
    # By x, y and m: how likely the message is, and that its answer is right.
    said = speaker[:, None, :] * is_pair[:, :, None]
    right = np.zeros((numbers, numbers, speaker.shape[1]))
    for x, y in np.argwhere(is_pair):
        right[x, y] = adder[:, y, x + y]
    pairs = is_pair.sum()
    return Levels(
        start=float((said * right).sum() / pairs),
        adder_alone=float(said.max(axis=0).sum() / pairs),
        speaker_alone=float(right.sum(axis=1).max(axis=1).sum() / pairs),
    )


def probabilities(speaker: Speaker, turn: Turn) -> Probabilities:
    """``[prompts, allowed]`` of the model's replies of one token: noise takes each token in turn."""
    columns = []
    for token in range(len(turn.allowed)):
        noise = np.zeros((len(turn.prompts), 1, len(turn.allowed)), np.float32)
        noise[:, :, token] = 1e6
        columns.append(np.exp(sample(speaker, None, turn, noise).log_probability[:, 0].astype(np.float64)))
    return np.stack(columns, axis=1)


def main(arguments: Sequence[str]) -> None:
    """Writes the table for the model of a configuration."""
    table, *settings = arguments
    config = load(*split(settings))
    base = open_base(model_file(config))
    layers = min(config.base.layers, base.shape.layers)
    speaker = Speaker(base, AdapterLayout(base.shape, config.base.rank, layers))
    task = RelayPrompts(base.tokenizer)
    p, q = (probabilities(speaker, turn)[:, np.argsort(task.digits_of(turn.allowed))] for turn in task.asked())
    with Path(table).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Levels._fields)
        writer.writerow(f"{level:.4f}" for level in levels(p, q.reshape(10, 10, 10)))


if __name__ == "__main__":
    main(sys.argv[1:])
