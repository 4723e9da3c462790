"""Pictures of an environment's state: its own `render(index)` where it has one, else discs of the MPE tasks."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coordinator.errors import UserError
from functions.environments.base import VectorEnvironment
from functions.environments.last_action import LastAction
from functions.environments.mpe.engine import Engine

Picture = NDArray[np.uint8]

SIZE = 320
# mpe2 draws 350 pixels for one unit of a body's radius in a window of 700, and colours as 200 times their parts.
_RADIUS = 0.5
_ADVERSARY, _PREY, _AGENT, _LANDMARK = (170, 70, 70), (70, 170, 70), (70, 70, 170), (50, 50, 50)


def picture(environment: VectorEnvironment) -> Picture:
    """The state of environment 0 as ``[H, W, 3]``; raises `UserError` when it cannot be drawn."""
    if isinstance(environment, LastAction):
        return picture(environment.environment)
    if isinstance(environment, Engine):
        return _discs(environment)
    render: Any = getattr(environment, "render", None)
    if render is None:
        raise UserError("the task cannot be drawn: its environment has no method render(index)")
    drawn = np.asarray(render(0))
    if drawn.dtype != np.uint8 or drawn.ndim != 3 or drawn.shape[2] != 3:
        raise UserError(f"render(0) gave {drawn.dtype} {drawn.shape}; a picture is uint8 [H, W, 3]")
    return drawn


def _discs(engine: Engine) -> Picture:
    """All bodies, later ones on top; as in mpe2, the furthest coordinate is at nine tenths of the way to the edge."""
    from PIL import Image, ImageDraw

    positions = engine.snapshot().position[0]
    furthest = float(np.abs(positions).max()) or 1.0
    # Twice the size, then halved, so that edges are smooth.
    large = 2 * SIZE
    image = Image.new("RGB", (large, large), "white")
    draw = ImageDraw.Draw(image)
    rows = list(enumerate(engine.bodies))
    agents = len(engine.spec.agents)
    for row, body in rows[agents:] + rows[:agents]:
        x, y = (1 + 0.9 * positions[row] / furthest * (1, -1)) * large / 2
        radius = body.size * _RADIUS * 0.9 / furthest * large
        colour = _colour(engine, row) if row < agents else _LANDMARK
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour, outline="black")
    return np.asarray(image.resize((SIZE, SIZE), Image.Resampling.BOX))


def _colour(engine: Engine, agent: int) -> tuple[int, int, int]:
    if engine.bodies[agent].name.startswith("adversary"):
        return _ADVERSARY
    return _PREY if engine.spec.sides else _AGENT
