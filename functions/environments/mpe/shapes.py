"""A state of the Multi-Particle Environments as discs in the scenario's colours, and messages."""

from collections import Counter
from collections.abc import Sequence

from marless.functions.environments.mpe.world import Body, Real
from marless.functions.environments.scene import Colour, Disc, Scene

# From the centre to the edge of the picture. Bodies start within 1, and the largest body has a radius of 0.3.
_REACH = 1.2


def scene(bodies: Sequence[Body], agents: int, colours: Sequence[Colour], position: Real, texts: list[str]) -> Scene:
    """Draw the bodies at `position` ``[bodies, 2]``, agents below landmarks.

    The first `agents` bodies are the agents. Agents with the same name show their number.
    """
    stems = Counter(_stem(body.name) for body in bodies[:agents])
    shapes = []
    for number, (body, (x, y), colour) in enumerate(zip(bodies, position.tolist(), colours, strict=True)):
        stem = _stem(body.name)
        label = body.name.removeprefix(f"{stem}_") if number < agents and stems[stem] > 1 else ""
        shapes.append(Disc(_REACH + x, _REACH - y, body.size, colour, label))
    return Scene(2 * _REACH, 2 * _REACH, tuple(shapes), tuple(texts), tuple(colours[:agents]), walls=False)


def _stem(name: str) -> str:
    return name.rpartition("_")[0]


def colour_of(column: Real) -> Colour:
    """A colour from a row or column of a table ``[3]``."""
    red, green, blue = column.tolist()
    return red, green, blue


def message(name: str, symbols: Real, continuous: bool) -> str:
    """Return an agent's message in mpe2's words: a letter per word, "_" for silence, numbers for continuous actions."""
    if not symbols.any():
        return f"{name} sends _"
    if continuous:
        return f"{name} sends [{','.join(f'{part:.2f}' for part in symbols)}]"
    return f"{name} sends {chr(ord('A') + int(symbols.argmax()))}"
