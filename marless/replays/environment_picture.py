"""Pictures of an environment's state, of what its `render(index)` returns."""

import numpy as np
from numpy.typing import NDArray

from coordinator.errors import UserError
from functions.environments.base import VectorEnvironment
from functions.environments.registry import innermost
from functions.environments.scene import Scene
from marless.replays import scene_drawing

Picture = NDArray[np.uint8]


def picture(environment: VectorEnvironment) -> Picture:
    """The state of environment 0 as ``[H, W, 3]``; raises `UserError` when it cannot be drawn."""
    render = getattr(innermost(environment), "render", None)
    if render is None:
        raise UserError("the task cannot be drawn: its environment has no method render(index)")
    rendering = render(0)
    if isinstance(rendering, Scene):
        return scene_drawing.draw(rendering)
    if rendering is None:
        raise UserError("render(0) returned None, which is no picture")
    pixels = np.asarray(rendering)
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
        raise UserError(f"render(0) gave {pixels.dtype} {pixels.shape}; a picture is uint8 [H, W, 3]")
    return pixels
