"""A small base from nothing, that imitates the teacher of a task."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from marless.functions.algorithms.engines.torch_engine import compute_alike
from marless.functions.randomness import generator
from marless_language.base_header import BaseHeader, LlamaShape
from marless_language.model.base_model import encode
from marless_language.model.llama import (
    EMBEDDING,
    NORM,
    Layer,
    Weights,
    forward,
    rms_norm,
    rotations,
    tensor_shapes,
)
from marless_language.model.text_tokenizer import text_of
from marless_language.protocol import Lesson
from marless_language.symbols import Symbols


@dataclass(frozen=True)
class Pretraining:
    """A small model, and how long it learns."""

    layers: int = 2
    hidden: int = 64
    heads: int = 4
    kv_heads: int = 2
    intermediate: int = 160
    steps: int = 600
    rows: int = 64
    """Examples of a step, all of one turn."""
    lr: float = 3e-3


def pretrain(lessons: Sequence[Lesson], symbols: Symbols, context: int, seed: int, settings: Pretraining) -> bytes:
    """Return the object of a base that has learned the lessons' replies. It reads at most `context` tokens.

    Turns take steps in turn, each on rows drawn at the address (seed, "pretrain", step). The rate falls linearly to 0.
    Equal arguments give equal bytes.
    """
    compute_alike()
    shape = LlamaShape(
        layers=settings.layers,
        hidden=settings.hidden,
        heads=settings.heads,
        kv_heads=settings.kv_heads,
        head_size=settings.hidden // settings.heads,
        intermediate=settings.intermediate,
        vocabulary=symbols.size,
        context=context,
    )
    weights = _initial(shape, seed)
    optimiser = torch.optim.Adam(weights.values(), settings.lr)
    for step in range(settings.steps):
        lesson, rng = lessons[step % len(lessons)], generator(seed, "pretrain", step)
        rows = rng.integers(len(lesson.tokens), size=settings.rows)
        optimiser.zero_grad()
        _loss(shape, weights, lesson._replace(tokens=lesson.tokens[rows])).backward()  # type: ignore[no-untyped-call]
        for group in optimiser.param_groups:
            group["lr"] = settings.lr * (1 - step / settings.steps)
        optimiser.step()
    tensors = {name: tensor.detach().numpy() for name, tensor in weights.items()}
    return encode(BaseHeader(shape, text_of(symbols)), tensors, "the new base")


def _initial(shape: LlamaShape, seed: int) -> dict[str, Tensor]:
    """Draw matrices with variances of one over their inputs, and the embedding with four times its share.

    The embedding is the head too, and the outputs that it multiplies have a fixed norm. So the length of its rows
    bounds the certainty of a reply once adapters learn in addition. Large models usually have deviations of 0.02. With
    these, adapters of a model of 64 units could not bring a token above a probability of 0.9.
    """
    rng, weights = generator(seed, "pretrain", "initialise"), dict[str, Tensor]()
    for name, sizes in tensor_shapes(shape).items():
        deviation = (2 if name == EMBEDDING else 1) * sizes[-1] ** -0.5
        array = np.ones(sizes) if len(sizes) == 1 else deviation * rng.standard_normal(sizes)
        weights[name] = torch.from_numpy(array.astype(np.float32)).requires_grad_()
    return weights


def _loss(shape: LlamaShape, weights: Weights, lesson: Lesson) -> Tensor:
    """The mean cross-entropy of the replies' tokens."""
    tokens = torch.from_numpy(lesson.tokens.astype(np.int64))
    hidden, length = functional.embedding(tokens[:, :-1], weights[EMBEDDING]), tokens.shape[1] - lesson.prompt
    rotation = rotations(shape, hidden.shape[1])
    for number in range(shape.layers):
        last = length if number + 1 == shape.layers else None
        hidden, _ = forward(Layer(shape, weights, {}, number), hidden, rotation, last=last)
    logits = functional.linear(rms_norm(hidden, weights[NORM], shape.rms_epsilon), weights[EMBEDDING])
    return functional.cross_entropy(logits.reshape(-1, shape.vocabulary), tokens[:, -length:].reshape(-1))
