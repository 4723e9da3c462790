"""The random numbers of the games in C, in the place of numpy's generator in packages that play the same games."""

import numpy as np

_WORD = 2**32


def philox(key, counter):
    """Philox4x32-10 (Salmon et al. 2011): four words for a key of 64 bits and a counter of four words."""
    low, high = key % _WORD, key >> 32
    first, second, third, fourth = counter
    for _ in range(10):
        product, other = first * 0xD2511F53, third * 0xCD9E8D57
        first, second, third, fourth = (
            other >> 32 ^ second ^ low,
            other % _WORD,
            product >> 32 ^ fourth ^ high,
            product % _WORD,
        )
        low, high = (low + 0x9E3779B9) % _WORD, (high + 0xBB67AE85) % _WORD
    return first, second, third, fourth


class CountedDraws:
    """The draws of an environment for one purpose in one step of an episode."""

    def __init__(self, key, episode, clock, purpose):
        self._key, self._address, self._count = key, (purpose, clock, episode), 0

    def below(self, count):
        """A whole number from 0 to `count` - 1."""
        block, place = divmod(self._count, 4)
        self._count += 1
        return philox(self._key, (block, *self._address))[place] * int(count) >> 32


class ForagingGenerator:
    """Draws for the package for foraging. It asks for players, then for food, each after a permutation."""

    def __init__(self, key, episode):
        self._key, self._episode, self._purpose = int(key), int(episode), -1

    def permutation(self, count):
        self._purpose += 1
        self._draws = CountedDraws(self._key, self._episode, 0, self._purpose)
        return np.arange(count)  # all levels have the same limits

    def integers(self, low, high):
        return int(low + self._draws.below(high - low))


class WarehouseGenerator:
    """Draws for the package for warehouses, at the start of an episode or in a step."""

    def __init__(self, key, episode, clock=0):
        self._draws = CountedDraws(int(key), int(episode), clock, purpose=int(clock > 0))

    def choice(self, options, size=None, replace=True):
        if size is None:
            return options[self._draws.below(len(options))]
        if replace:
            return [options[self._draws.below(len(options))] for _ in range(size)]
        left = list(options)
        return np.array([left.pop(self._draws.below(len(left))) for _ in range(size)])
