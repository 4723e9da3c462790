"""A speaker that counts the tokens that it computes."""

from threading import Lock

from torch import Tensor

from marless_language.adapter_layout import AdapterLayout
from marless_language.model.base_model import Base
from marless_language.model.llama import Past, Weights
from marless_language.model.speaker import ROWS, Opening, Speaker
from marless_language.protocol import TokenArray


class CountingSpeaker(Speaker):
    """Counts tokens times layers of all forward passes, with the copies that fill up a part."""

    def __init__(self, base: Base, layout: AdapterLayout, cache_bytes: int) -> None:
        """Keep frozen layers' outputs up to `cache_bytes`. 0 computes them each time."""
        super().__init__(base, layout, cache_bytes)
        self._token_layers, self._lock = 0, Lock()

    @property
    def computed_tokens(self) -> float:
        """Return the number of tokens with as many operations in all layers."""
        return self._token_layers / self.base.shape.layers

    @property
    def _adapted(self) -> int:
        return self.base.shape.layers - self.layout.first

    def _count(self, tokens: int, layers: int) -> None:
        with self._lock:  # parts of a batch have separate threads
            self._token_layers += tokens * layers

    def _trunk(self, tokens: TokenArray, common: int) -> list[Tensor]:
        rows = -(-len(tokens) // ROWS) * ROWS
        self._count(rows * (tokens.shape[1] - common), self.layout.first)
        return super()._trunk(tokens, common)

    def _opening(self, tokens: TokenArray) -> Opening:
        self._count(tokens.size, self.layout.first)
        return super()._opening(tokens)

    def opened(self, opening: Opening | None, adapter: Weights) -> list[Past] | None:
        """Count and compute the opening's adapted layers."""
        self._count(0 if opening is None else opening.hidden.shape[1], self._adapted)
        return super().opened(opening, adapter)

    def top(self, hidden: Tensor, adapter: Weights, last: int, opening: Opening | None = None) -> Tensor:
        """Count and compute the adapted layers."""
        self._count(hidden.shape[0] * hidden.shape[1], self._adapted)
        return super().top(hidden, adapter, last, opening)

    def following(self, tokens: Tensor, past: list[Past] | None, adapter: Weights) -> tuple[Tensor, list[Past]]:
        """Count and compute all layers."""
        self._count(tokens.numel(), self.base.shape.layers)
        return super().following(tokens, past, adapter)
