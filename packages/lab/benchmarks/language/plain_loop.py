"""GRPO of roles in one plain loop without functions, messages and storage:
``python -m benchmarks.language.plain_loop THREADS CACHE_BYTES CONFIG [KEY=VALUE ...]``.

Model, sampling, gradient and step are the product's own. So differences come only from the code around them. With one
thread the weights equal a run's weights to the last bit. Prints one JSON object.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.language.counting_speaker import CountingSpeaker
from marless.coordinator.config.loading import load
from marless.coordinator.config.schema import RunConfig
from marless.functions import codec
from marless.functions.randomness import generator
from marless_language import grpo
from marless_language.adapter_layout import AdapterLayout, initial_adapter
from marless_language.episodes import Episodes
from marless_language.experience import Replies
from marless_language.grpo_gradient import gradient_sums
from marless_language.model.base_model import open_base
from marless_language.playing import Transcript, Voice, play
from marless_language.registry import make
from marless_language.runs.language_models import model_file
from marless_language.specs import GrpoConfig, adapter_name


class Loop:
    """A run with an adapter for each role, round after round."""

    def __init__(self, config: RunConfig, threads: int, cache_bytes: int) -> None:
        assert isinstance(config.algorithm, GrpoConfig)
        base = open_base(model_file(config))
        layers = min(config.base.layers, base.shape.layers)
        self.speaker = CountingSpeaker(base, AdapterLayout(base.shape, config.base.rank, layers), cache_bytes)
        torch.set_num_threads(threads)  # the speaker has set one
        task = make(config.task, base.tokenizer)
        self.episodes = Episodes(config.task.name, task, base.context)
        self.config, self.algorithm, self.round = config, config.algorithm, 0
        layout, seed = self.speaker.layout, config.seed
        self.roles = [
            grpo.begin(initial_adapter(layout, generator(seed, "initialise", role))) for role in range(len(task.roles))
        ]

    def play_round(self) -> int:
        """Samples and learns. The tokens of all prompts and replies."""
        transcript = self._sample()
        parts = _replies(transcript, self.algorithm.group_size)
        for role, descent in enumerate(self.roles):
            ours = [replies for replies in parts if replies.role == role]
            sums = gradient_sums(self.speaker, descent.adapter, self.algorithm, ours)
            self.roles[role] = grpo.step(self.algorithm, descent, [sums])
        self.round += 1
        return sum(replies.tokens.size for replies in parts)

    def _sample(self) -> Transcript:
        address, config = (self.config.seed, self.round), self.config
        return play(
            self.speaker,
            self.episodes,
            [Voice(descent.adapter) for descent in self.roles],
            generator(*address, "environment", 0),
            lambda turn: generator(*address, "replies", 0, turn),
            config.actors.num_envs,
            self.algorithm.group_size,
        )

    def adapters_sha256(self) -> str:
        """The hash of all roles' adapters."""
        return codec.tensors_sha256({adapter_name(role): descent.adapter for role, descent in enumerate(self.roles)})


def _replies(transcript: Transcript, copies: int) -> list[Replies]:
    rewards = transcript.outcome.rewards
    return [
        Replies(
            role=turn.role,
            turn=number,
            tokens=np.concatenate([turn.prompts, sampled.replies], axis=1),
            prompt=turn.prompts.shape[1],
            allowed=turn.allowed,
            log_probability=sampled.log_probability,
            mask=sampled.mask,
            reward=rewards[:, turn.role],
            copies=copies,
            common=turn.common,
        )
        for number, (turn, sampled) in enumerate(transcript.turns)
    ]


def looped(config: RunConfig, threads: int, cache_bytes: int) -> dict[str, Any]:
    """All rounds: the tokens of each, and when it ended, in seconds from the first one's beginning.

    `computed` has the tokens that were computed by the end of each round.
    """
    loop = Loop(config, threads, cache_bytes)
    began, tokens, ends_s, computed = time.perf_counter(), list[int](), list[float](), list[float]()
    for _ in range(config.stop.rounds or 0):
        tokens.append(loop.play_round())
        ends_s.append(time.perf_counter() - began)
        computed.append(loop.speaker.computed_tokens)
    return {"tokens": tokens, "ends_s": ends_s, "computed": computed, "adapters": loop.adapters_sha256()}


if __name__ == "__main__":
    threads, cache_bytes, path, *settings = sys.argv[1:]
    print(json.dumps(looped(load(Path(path) if path else None, settings), int(threads), int(cache_bytes))))
