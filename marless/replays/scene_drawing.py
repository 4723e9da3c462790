"""Draws scenes, what an environment's `render` may return as shapes, as pictures."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from functions.environments.scene import BLACK, Box, Colour, Disc, Line, Scene

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

# Pixels of the longer side.
SIZE = 320
# Shapes are drawn larger and then scaled down, so that edges are smooth.
_FINER = 2
# Of the picture's height: the size of letters, and mpe2's distances of lines from the edge and from one another.
_LETTERS, _LINE = 0.034, 0.05


def draw(scene: Scene) -> NDArray[np.uint8]:
    """The scene as ``[H, W, 3]``, its longer side `SIZE` pixels."""
    from PIL import Image, ImageDraw

    scale = SIZE / max(scene.width, scene.height)
    width, height = round(scene.width * scale), round(scene.height * scale)
    image = Image.new("RGB", (_FINER * width, _FINER * height), "white")
    canvas = ImageDraw.Draw(image)
    for shape in scene.shapes:
        _DRAWN[type(shape)](canvas, shape, _FINER * scale)
    for line, text in enumerate(scene.texts):
        at = (_LINE * image.width, image.height * (1 - _LINE * (1 + line)))
        canvas.text(at, text, fill=_pixel(BLACK), font=_font(_LETTERS * image.height), anchor="lt")
    return np.asarray(image.resize((width, height), Image.Resampling.BOX))


def _disc(canvas: "ImageDraw", disc: Disc, scale: float) -> None:
    x, y, radius = disc.x * scale, disc.y * scale, disc.radius * scale
    around = (x - radius, y - radius, x + radius, y + radius)
    canvas.ellipse(around, fill=_pixel(disc.colour), outline=_pixel(disc.outline), width=_FINER)
    _label(canvas, disc.label, x, y, radius)


def _box(canvas: "ImageDraw", box: Box, scale: float) -> None:
    x_left, top, width, height = (part * scale for part in (box.x, box.y, box.width, box.height))
    canvas.rectangle((x_left, top, x_left + width, top + height), fill=_pixel(box.colour))
    _label(canvas, box.label, x_left + width / 2, top + height / 2, height / 2)


def _line(canvas: "ImageDraw", line: Line, scale: float) -> None:
    ends = tuple(part * scale for part in (line.x, line.y, line.to_x, line.to_y))
    canvas.line(ends, fill=_pixel(line.colour), width=_FINER)


_DRAWN: dict[type, Any] = {Disc: _disc, Box: _box, Line: _line}


def _label(canvas: "ImageDraw", text: str, x: float, y: float, size: float) -> None:
    if text:
        canvas.text((x, y), text, fill=_pixel(BLACK), font=_font(size), anchor="mm")


def _font(size: float) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(max(size, 1.0))


def _pixel(colour: Colour) -> tuple[int, int, int]:
    red, green, blue = (round(255 * min(max(part, 0.0), 1.0)) for part in colour)
    return red, green, blue
