"""Simple crypto: Alice sends Bob a secret that Eve overhears (`simple_crypto_v3` of mpe2)."""

import numpy as np

from marless.functions.environments.base import AgentClass, FloatArray
from marless.functions.environments.entities.description import Entities
from marless.functions.environments.mpe.engine import Scenario
from marless.functions.environments.mpe.options import exactly, maker
from marless.functions.environments.mpe.world import GREY, Body, Real, World
from marless.functions.environments.scene import ORANGE, SKY_BLUE, Colour

# Landmark i means word i: column i is its one-hot over four words.
_WORDS = 4
_MEANING = np.eye(_WORDS, 2)
_COLOURS: tuple[Colour, ...] = (ORANGE, SKY_BLUE)
_EVE = (0.75, 0.25, 0.25)


class SimpleCrypto(Scenario):
    """No agent moves, all speak, and the messages of Eve and Bob are their guesses of the secret, one of two words.

    A wrong guess costs its squared distance from the secret's one-hot, silence (all zeros, possible with continuous
    actions) costs nothing. Eve gets minus her cost. Bob and Alice get Eve's cost minus Bob's. Alice sees the secret and
    the key, Bob the key and Alice's message, Eve Alice's message. The key is also one of the two words.
    """

    goals = 2
    words = _WORDS
    sides = (0, 1, 1)

    def __init__(self) -> None:
        colours = {"eve_0": _EVE, "bob_0": GREY, "alice_0": GREY}
        self.agents = tuple(
            Body(name, size=0.05, collides=False, moves=False, speaks=True, colour=colour)
            for name, colour in colours.items()
        )
        self.landmarks = tuple(
            Body(f"landmark_{i}", size=0.05, collides=False, colour=colour) for i, colour in enumerate(_COLOURS)
        )
        self.classes = (
            AgentClass("eve", (0,), _WORDS, _WORDS, entities=Entities.of(_WORDS)),
            AgentClass("bob", (1, 2), 2 * _WORDS, _WORDS, entities=Entities.of(2 * _WORDS)),
        )

    def colours(self, goals: tuple[int, ...]) -> list[Colour]:
        """Bob has the colour of the secret."""
        colours = super().colours(goals)
        colours[1] = _COLOURS[goals[0]]
        return colours

    def observe(self, world: World, features: tuple[FloatArray, ...]) -> None:
        eve, (bob, alice) = features
        secret, key = world.goals
        ciphertext = world.said[2]
        eve[0] = ciphertext
        bob[:_WORDS] = alice[_WORDS:] = _MEANING.take(key, axis=1)
        bob[_WORDS:] = ciphertext
        alice[:_WORDS] = _MEANING.take(secret, axis=1)

    def reward(self, world: World, out: Real) -> None:
        """Eve loses her cost. Alice and Bob gain it, and lose Bob's."""
        guesses = world.said[:2]
        wrong = np.square(guesses - _MEANING.take(world.goals[0], axis=1))
        # Word by word, as mpe2 adds: the order of a reduction would depend on the number of environments.
        cost = wrong[:, 0] + wrong[:, 1] + wrong[:, 2] + wrong[:, 3]
        cost *= guesses.any(axis=1)
        eve, bob = cost
        np.subtract(0.0, eve, out=out[0])
        np.subtract(eve, bob, out=out[1:])


make = maker(SimpleCrypto, exactly(3))
