"""A base that adapters speak through: the frozen trunk below them once per sequence, the layers above for each of them.

Every product is computed for `ROWS` sequences of equal length, filled up with copies, in one thread. Only the tokens
that all sequences begin with are computed for one sequence. So a sequence's result is independent of the other
sequences and of the kept activations (the trunk's, by their tokens). Threads may share such parts.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from marless.functions.algorithms.engines.torch_engine import compute_alike
from marless.functions.nn.losses import ILLEGAL
from marless_language.adapter_layout import AdapterLayout, Flat
from marless_language.errors import UnusableBase
from marless_language.model.base_model import Base
from marless_language.model.llama import (
    EMBEDDING,
    HEAD,
    NORM,
    Layer,
    Past,
    Weights,
    forward,
    rms_norm,
    rotations,
)
from marless_language.protocol import LegalArray, TokenArray

# Sequences that are computed together.
ROWS = 8
_CACHE_BYTES = 256 * 2**20
# Of a model with smaller ones an operation takes microseconds, and threads would wait for the interpreter.
_LEAST_HIDDEN = 256

# The most beginnings of prompts with a kept trunk: some megabytes each in a large model.
_MOST_OPENINGS = 16

Part = TypeVar("Part")


class Opening(NamedTuple):
    """The trunk's outputs for the C tokens that all sequences of a turn begin with."""

    hidden: Tensor
    """``[1, C, hidden]``: the inputs of the lowest adapted layer."""
    pasts: tuple[Past, ...]
    """Of the layers below it."""


class ByteStore(Protocol):
    """Bytes that this process or another one has kept by a key, if any."""

    def get(self, key: bytes) -> bytes | None: ...

    def put(self, key: bytes, body: bytes) -> None: ...


class Speaker:
    """A base and the place of the adapters in it. Roles and tenants share it, each with a separate adapter."""

    def __init__(
        self,
        base: Base,
        layout: AdapterLayout,
        cache_bytes: int = _CACHE_BYTES,
        threads: int | None = None,
        store: ByteStore | None = None,
    ) -> None:
        """Keeps activations of the trunk up to `cache_bytes`, and beyond this process in `store`. So many `threads`
        share the parts of `each_part`. None: as many as there are cores, if the model is large enough for them."""
        compute_alike()
        self.base, self.layout = base, layout
        fitting = _cores() if base.shape.hidden >= _LEAST_HIDDEN else 1
        self._threads = fitting if threads is None else threads
        self._rotation = torch.zeros(2, 0, 0)
        self._cache, self._cached_bytes, self._most_bytes = OrderedDict[bytes, Tensor](), 0, cache_bytes
        self._store = store
        self._openings = OrderedDict[bytes, Opening]()

    def matrices(self, adapter: Flat | None, gradient: bool = False) -> dict[str, Tensor]:
        """Return the adapter's matrices by name, leaves of a graph if `gradient`. For None (the base alone) it is
        empty."""
        if adapter is None:
            return {}
        arrays = self.layout.split(np.array(adapter, np.float32))  # torch warns of arrays that cannot be written
        return {name: torch.from_numpy(array).requires_grad_(gradient) for name, array in arrays.items()}

    def opening(self, tokens: TokenArray) -> Opening | None:
        """Return the opening for the first tokens ``[C]`` of sequences, or None."""
        key = np.ascontiguousarray(tokens, np.int32).tobytes()
        if not key:
            return None
        if key not in self._openings:
            self._openings[key] = self._opening(tokens)
        self._openings.move_to_end(key)
        while len(self._openings) > _MOST_OPENINGS:
            self._openings.popitem(last=False)
        return self._openings[key]

    @torch.no_grad()
    def _opening(self, tokens: TokenArray) -> Opening:
        self.require_readable(tokens[np.newaxis])
        hidden, pasts = self.embed(tokens[np.newaxis]), list[Past]()
        for number in range(self.layout.first):
            hidden, past = forward(self._layer(number, {}), hidden, self.rotation(0, len(tokens)))
            pasts.append(past)
        return Opening(hidden, tuple(pasts))

    def opened(self, opening: Opening | None, adapter: Weights) -> list[Past] | None:
        """Return the data of an opening that later tokens need, layer by layer, for `ROWS` sequences."""
        if opening is None:
            return None
        hidden, pasts, highest = opening.hidden, list(opening.pasts), self.base.shape.layers - 1
        rotation = self.rotation(0, hidden.shape[1])
        for number in range(self.layout.first, highest + 1):
            last = 1 if number == highest else None  # its outputs are unused
            hidden, past = forward(self._layer(number, adapter), hidden, rotation, last=last)
            pasts.append(past)
        return [past.of_rows(ROWS) for past in pasts]

    def trunk(self, tokens: TokenArray, common: int = 0) -> Tensor:
        """The inputs of the lowest adapted layer ``[n, T - common, hidden]`` for sequences ``[n, T]``, behind the
        first tokens, which are `common` to all of them."""
        self.require_readable(tokens)
        keys = [np.array([common, *row], np.int32).tobytes() for row in tokens]
        rows = dict(zip(keys, tokens, strict=True))
        activations = {key: self._cache[key] for key in rows if key in self._cache}
        activations |= self._computed_elsewhere([key for key in rows if key not in activations])
        fresh = {key: row for key, row in rows.items() if key not in activations}
        if fresh:
            activations |= zip(fresh, self._trunk(np.stack(list(fresh.values())), common), strict=True)
            if self._store is not None:
                for key in fresh:
                    self._store.put(key, activations[key].numpy().tobytes())
        for key in rows:
            self._keep(key, activations[key])
        return torch.stack([activations[key] for key in keys])

    def _computed_elsewhere(self, keys: list[bytes]) -> dict[bytes, Tensor]:
        """Return the stored results of these rows."""
        bodies = {key: self._store.get(key) for key in keys} if self._store is not None else {}
        shape = (-1, self.base.shape.hidden)
        return {
            key: torch.from_numpy(np.frombuffer(body, np.float32).reshape(shape).copy())
            for key, body in bodies.items()
            if body is not None
        }

    @torch.no_grad()
    def _trunk(self, tokens: TokenArray, common: int) -> list[Tensor]:
        opening, rotation = self.opening(tokens[0, :common]), self.rotation(common, tokens.shape[1])

        def rows(part: TokenArray, count: int) -> list[Tensor]:
            hidden = self.embed(part)
            for number in range(self.layout.first):
                past = opening.pasts[number].of_rows(ROWS) if opening else None
                hidden, _ = forward(self._layer(number, {}), hidden, rotation, past)
            return [row.clone() for row in hidden[:count]]

        return [row for part in self.each_part(tokens[:, common:], rows) for row in part]

    def each_part(self, rows: TokenArray, compute: Callable[[TokenArray, int], Part]) -> list[Part]:
        """Return the results of `compute` for each of the `chunks` of `ROWS` rows, in their order."""
        parts, has_gradient = [*chunks(rows, ROWS)], torch.is_grad_enabled()
        if self._threads == 1 or len(parts) < 2:
            return [compute(*part) for part in parts]

        def computed(part: tuple[TokenArray, int]) -> Part:
            with torch.set_grad_enabled(has_gradient):  # a new thread begins with gradients
                return compute(*part)

        with ThreadPoolExecutor(
            min(self._threads, len(parts)), initializer=torch.set_num_threads, initargs=(1,)
        ) as pool:
            return [*pool.map(computed, parts)]

    def _keep(self, key: bytes, row: Tensor) -> None:
        """As the latest that was used. The oldest make room for it."""
        size = row.numel() * row.element_size()
        if key not in self._cache:
            self._cached_bytes += size
        self._cache[key] = row
        self._cache.move_to_end(key)
        while self._cached_bytes > self._most_bytes:
            _, oldest = self._cache.popitem(last=False)
            self._cached_bytes -= oldest.numel() * oldest.element_size()

    def top(self, hidden: Tensor, adapter: Weights, last: int, opening: Opening | None = None) -> Tensor:
        """The model's normed outputs ``[rows, last, hidden]`` at the `last` positions of ``[rows, T, hidden]``, which
        are those behind the opening."""
        before = self.opened(opening, adapter)
        common, highest = opening.hidden.shape[1] if opening else 0, self.base.shape.layers - 1
        rotation = self.rotation(common, common + hidden.shape[1])
        for number in range(self.layout.first, highest + 1):
            past, keep = before[number] if before else None, last if number == highest else None
            hidden, _ = forward(self._layer(number, adapter), hidden, rotation, past, keep)
        return self._normed(hidden)

    def following(self, tokens: Tensor, past: list[Past] | None, adapter: Weights) -> tuple[Tensor, list[Past]]:
        """Return the model's normed output ``[rows, 1, hidden]`` at the last of ``[rows, T]`` tokens, and the data for
        later tokens. `past` has the data of the tokens before them, layer by layer."""
        hidden, pasts = functional.embedding(tokens, self.base.weights[EMBEDDING]), list[Past]()
        before = past[0].keys.shape[2] if past else 0
        rotation, highest = self.rotation(before, before + tokens.shape[1]), self.base.shape.layers - 1
        for number in range(highest + 1):
            earlier, last = past[number] if past else None, 1 if number == highest else None
            hidden, of_layer = forward(self._layer(number, adapter), hidden, rotation, earlier, last)
            pasts.append(of_layer)
        return self._normed(hidden), pasts

    def head(self, allowed: TokenArray) -> Tensor:
        """Return the matrix ``[A, hidden]`` that turns outputs into the logits of these tokens alone."""
        weights = self.base.weights[EMBEDDING if self.base.shape.tied else HEAD]
        every = len(allowed) == len(weights)
        return weights if every else weights[torch.from_numpy(np.asarray(allowed, np.int64))]

    def embed(self, tokens: TokenArray) -> Tensor:
        return functional.embedding(torch.from_numpy(np.asarray(tokens, np.int64)), self.base.weights[EMBEDDING])

    def require_readable(self, tokens: TokenArray, more: int = 0) -> None:
        """Raises `UnusableBase` for sequences that, with so many tokens `more`, are longer than the model can read, and
        for tokens that it does not have."""
        shape = self.base.shape
        if tokens.shape[1] + more > shape.context:
            raise UnusableBase(
                f"a prompt and its reply of {tokens.shape[1] + more} tokens: the model reads {shape.context} at most;"
                " take shorter texts or another model"
            )
        if tokens.size and not 0 <= tokens.min() <= tokens.max() < shape.vocabulary:
            raise UnusableBase(
                f"token {tokens.max()}: the model's vocabulary has {shape.vocabulary} tokens; the task was made for"
                " another one"
            )

    def rotation(self, start: int, stop: int) -> Tensor:
        """That of `llama.rotations` at these positions."""
        if self._rotation.shape[1] < stop:
            self._rotation = rotations(self.base.shape, stop)
        return self._rotation[:, start:stop]

    def _layer(self, number: int, adapter: Weights) -> Layer:
        return Layer(self.base.shape, self.base.weights, adapter, number)

    def _normed(self, hidden: Tensor) -> Tensor:
        return rms_norm(hidden, self.base.weights[NORM], self.base.shape.rms_epsilon)


def among(logits: Tensor, legal: LegalArray | None) -> Tensor:
    """Return the log-probabilities ``[n, ..., A]`` of tokens. ``legal[n]`` are the possible choices (None: all)."""
    if legal is not None:
        may = torch.from_numpy(legal.reshape(len(legal), *[1] * (logits.dim() - 2), -1))
        logits = logits.masked_fill(~may, ILLEGAL)
    return logits.log_softmax(-1)


def chunks(rows: TokenArray, size: int) -> Iterator[tuple[TokenArray, int]]:
    """Parts of `size` rows, and how many of them are not copies of the first that fill up the last part."""
    for first in range(0, len(rows), size):
        part = rows[first : first + size]
        yield np.concatenate((part, np.repeat(part[:1], size - len(part), axis=0))), len(part)


def _cores() -> int:
    """Of this machine, as far as this process may use them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
