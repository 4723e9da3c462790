"""Leduc hold'em: raises with a king or a pair, pays little to continue with less, and folds otherwise.

Before the public card a king raises, a queen calls, and a jack continues if that costs one chip at most. After it a
pair raises, a king calls, and anything else checks or folds. The actions are RLCard's: call, raise, fold, check.
"""

import numpy as np

from marless.functions.environments.base import BoolArray, FloatArray

CALL, RAISE, FOLD, CHECK = range(4)
_KING, _CARDS = 2, 3
# Where an observation counts the chips in the pot, 0 to 14, of the player and of the other.
_OWN, _OTHER = slice(6, 21), slice(21, 36)
# The actions in the player's order of preference.
_RAISES = (RAISE, CALL, CHECK, FOLD)
_GOES_ON = (CHECK, CALL, FOLD, RAISE)
_GIVES_UP = (CHECK, FOLD, CALL, RAISE)
_ORDERS = np.array([_RAISES, _GOES_ON, _GIVES_UP])


def choose(observations: FloatArray, legal: BoolArray) -> BoolArray:
    """The one action of every row ``[B, 4]``, from RLCard's observations ``[B, 36]``."""
    hand = observations[:, :_CARDS].argmax(axis=1)
    public, open_ = observations[:, _CARDS : 2 * _CARDS], observations[:, _CARDS : 2 * _CARDS].any(axis=1)
    to_call = observations[:, _OTHER].argmax(axis=1) - observations[:, _OWN].argmax(axis=1)
    strong = np.where(open_, public.argmax(axis=1) == hand, hand == _KING)
    willing = np.where(open_, hand == _KING, (hand > 0) | (to_call <= 1))
    order = _ORDERS[np.where(strong, 0, np.where(willing, 1, 2))]
    first = np.take_along_axis(legal, order, axis=1).argmax(axis=1)
    action = np.take_along_axis(order, first[:, None], axis=1)
    return np.asarray(np.arange(legal.shape[1]) == action)
