"""What roles wrote, and what it was worth."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from functions.language.protocol import TokenArray


class Replies(NamedTuple):
    """A role's n replies of one turn. Each `copies` consecutive ones are a group: their episodes began alike."""

    role: int
    turn: int
    tokens: TokenArray
    """``[n, P + R]``: prompts and replies."""
    prompt: int
    """P, the tokens of a prompt."""
    allowed: TokenArray
    """``[A]``, ascending: the tokens that a reply may consist of."""
    log_probability: NDArray[np.float32]
    """``[n, R]``: of each token of the reply under the weights that wrote it; 0 behind its end."""
    mask: NDArray[np.bool_]
    """``[n, R]``: False behind the end of a reply."""
    reward: NDArray[np.float64]
    """``[n]``."""
    copies: int
