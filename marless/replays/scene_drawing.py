"""Draws scenes as pictures. An environment's `render` may return a scene of shapes."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.scene import BLACK, Box, Colour, Disc, Line, Scene

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

# Pixels of the longer side.
SIZE = 400
# Shapes are drawn larger and then scaled down, so that edges are smooth.
_FINER = 2
# Of the picture's height: the size of letters, and mpe2's distances of lines from the edge and from one another.
_LETTERS, _LINE = 0.034, 0.05


def camera(scenes: Iterable[Scene]) -> float:
    """Return how many times as large as the field a picture must be to show all discs of the scenes."""
    largest = 1.0
    for scene in scenes:
        for disc in (shape for shape in scene.shapes if isinstance(shape, Disc)):
            for at, side in ((disc.x, scene.width), (disc.y, scene.height)):
                largest = max(largest, 2 * (abs(at - side / 2) + disc.radius) / side)
    return largest


def draw(scene: Scene, larger: float = 1.0) -> NDArray[np.uint8]:
    """Return the scene as ``[H, W, 3]``, its longer side `SIZE` pixels, with `larger` times its field around its
    centre."""
    from PIL import Image, ImageDraw

    scene = _widen(scene, larger)
    scale = SIZE / max(scene.width, scene.height)
    width, height = round(scene.width * scale), round(scene.height * scale)
    image = Image.new("RGB", (_FINER * width, _FINER * height), "white")
    canvas = ImageDraw.Draw(image)
    for shape in scene.shapes:
        _DRAWN[type(shape)](canvas, shape, _FINER * scale)
    for disc in (shape for shape in scene.shapes if isinstance(shape, Disc)):  # also where a smaller shape covers it
        x, y, radius = (part * _FINER * scale for part in (disc.x, disc.y, disc.radius))
        _label(canvas, disc.label, x, y, 1.2 * radius, disc.colour)
    for line, text in enumerate(scene.texts):
        at = (_LINE * image.width, image.height * (1 - _LINE * (1 + line)))
        canvas.text(at, text, fill=_pixel(BLACK), font=_font(_LETTERS * image.height), anchor="lt")
    return np.asarray(image.resize((width, height), Image.Resampling.BOX))


def _widen(scene: Scene, larger: float) -> Scene:
    if larger == 1:
        return scene
    width, height = scene.width * larger, scene.height * larger
    right, down = (width - scene.width) / 2, (height - scene.height) / 2
    shapes = []
    for shape in scene.shapes:
        moved = shape._replace(x=shape.x + right, y=shape.y + down)
        if isinstance(moved, Line):
            moved = moved._replace(to_x=moved.to_x + right, to_y=moved.to_y + down)
        shapes.append(moved)
    return scene._replace(width=width, height=height, shapes=tuple(shapes))


def _disc(canvas: "ImageDraw", disc: Disc, scale: float) -> None:
    x, y, radius = disc.x * scale, disc.y * scale, disc.radius * scale
    around = (x - radius, y - radius, x + radius, y + radius)
    canvas.ellipse(around, fill=_pixel(disc.colour), outline=_pixel(disc.outline), width=_FINER)


def _box(canvas: "ImageDraw", box: Box, scale: float) -> None:
    x_left, top, width, height = (part * scale for part in (box.x, box.y, box.width, box.height))
    canvas.rectangle((x_left, top, x_left + width, top + height), fill=_pixel(box.colour))
    _label(canvas, box.label, x_left + width / 2, top + height / 2, height / 2, box.colour)


def _line(canvas: "ImageDraw", line: Line, scale: float) -> None:
    ends = tuple(part * scale for part in (line.x, line.y, line.to_x, line.to_y))
    canvas.line(ends, fill=_pixel(line.colour), width=_FINER)


_DRAWN: dict[type, Any] = {Disc: _disc, Box: _box, Line: _line}


def _label(canvas: "ImageDraw", text: str, x: float, y: float, size: float, ground: Colour) -> None:
    if text:
        red, green, blue = ground
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
        canvas.text((x, y), text, fill="white" if dark else "black", font=_font(size), anchor="mm")


def _font(size: float) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(max(size, 1.0))


def _pixel(colour: Colour) -> tuple[int, int, int]:
    red, green, blue = (round(255 * min(max(part, 0.0), 1.0)) for part in colour)
    return red, green, blue
