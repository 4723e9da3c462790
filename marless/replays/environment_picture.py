"""Pictures of an environment's state, of its `render(index)`."""

import numpy as np
from numpy.typing import NDArray

from marless.coordinator.errors import UserError
from marless.functions.environments.base import VectorEnvironment
from marless.functions.environments.registry import innermost
from marless.functions.environments.scene import Scene
from marless.replays import scene_drawing

Picture = NDArray[np.uint8]


def rendering(environment: VectorEnvironment) -> Picture | Scene:
    """Return the state of environment 0, as a picture ``[H, W, 3]`` or as shapes. Raises `UserError` if it cannot be
    drawn."""
    if (render := getattr(innermost(environment), "render", None)) is None:
        raise UserError("the task cannot be drawn: its environment has no method render(index)")
    rendered = render(0)
    if isinstance(rendered, Scene):
        return rendered
    if rendered is None:
        raise UserError("render(0) returned None, which is no picture")
    pixels = np.asarray(rendered)
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
        raise UserError(f"render(0) gave {pixels.dtype} {pixels.shape}; a picture is uint8 [H, W, 3]")
    return pixels


def picture(rendered: Picture | Scene, larger: float = 1.0) -> Picture:
    """Return the picture ``[H, W, 3]``. Shapes are shown with `larger` times their field."""
    return scene_drawing.draw(rendered, larger) if isinstance(rendered, Scene) else rendered
