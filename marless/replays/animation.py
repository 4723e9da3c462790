"""Episodes as an animation: panels side by side, each with its name and figures below its picture."""

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, cast

from marless.replays.greedy_episodes import ReplayFrame, SideReturns
from marless.reports.digits import figure

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

# How long the last frame of an episode stays at least.
_LAST_MS = 800
# Pixels around a picture, which has a thin frame.
_MARGIN = 4
# The size of letters, at least and in parts of the picture's width. Below the picture, in sizes of letters: the space
# above and below the lines together, the first line's top and a line.
_LETTERS, _OF_WIDTH = 10, 1 / 40
_SPACE, _TOP, _LINE = 0.6, 0.4, 1.4
_FRAME = "silver"
# So narrow at least that figures fit.
_NARROWEST = 240
# Of the palette, how many of them are the commonest, and of how many images it is made.
_COLOURS, _COMMON, _SAMPLED = 128, 32, 12
_WHITE = (255, 255, 255)

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class Panel:
    """A team's name, and a function that plays the episode of a number."""

    name: str
    episode: Callable[[int], Iterable[ReplayFrame]]


@dataclass(frozen=True)
class Still:
    """One image of the animation and how long it stays, in frames."""

    image: "Image"
    frames: int


@dataclass(frozen=True)
class Animation:
    """Episodes of teams side by side, played and drawn as they are asked for."""

    panels: Sequence[Panel]
    episodes: int
    frame_ms: int

    def stills(self) -> Iterator[Still]:
        """All images in order."""
        return chain.from_iterable(map(self.episode, range(self.episodes)))

    def episode(self, number: int) -> Iterator[Still]:
        """Yield the images of one episode. A panel with an ended episode holds its last frame until the others end."""
        playing = [iter(panel.episode(number)) for panel in self.panels]
        frames: list[ReplayFrame] = [next(one) for one in playing]
        over = False
        while not over:
            images = [
                _add_captions(panel.name, frame, f"episode {number + 1} of {self.episodes}")
                for panel, frame in zip(self.panels, frames, strict=True)
            ]
            later = [next(one, None) for one in playing]
            over = all(frame is None for frame in later)
            yield Still(_beside(images), max(1, round(_LAST_MS / self.frame_ms)) if over else 1)
            frames = [new or last_frame for new, last_frame in zip(later, frames, strict=True)]


def gif(animation: Animation) -> bytes:
    """Return the bytes of the animated GIF. One palette for all images keeps still parts unchanged."""
    from PIL import Image

    stills = list(animation.stills())
    palette = _palette([still.image for still in stills])
    images = []
    for number, still in enumerate(stills):
        # A last pixel that differs keeps Pillow from joining equal frames.
        still.image.putpixel((still.image.width - 1, still.image.height - 1), (0, 0, 0) if number % 2 else _WHITE)
        images.append(still.image.quantize(palette=palette, dither=Image.Dither.NONE))
    body = io.BytesIO()
    # A GIF counts in hundredths of a second.
    frame_ms = 10 * round(animation.frame_ms / 10)
    durations = [frame_ms * still.frames for still in stills]
    images[0].save(body, "GIF", save_all=True, append_images=images[1:], duration=durations, loop=0)
    return body.getvalue()


def _palette(images: list["Image"]) -> "Image":
    """Return a palette for all images: the commonest colours unchanged, and the best match for the others."""
    from PIL import Image

    # The first of every few.
    some = _beside(images[:: -(-len(images) // _SAMPLED)])
    colour_counts = cast(list[tuple[int, Colour]], some.getcolors(some.width * some.height))
    common = [colour for _, colour in sorted(colour_counts, reverse=True)[:_COMMON]]
    parts = iter(some.quantize(_COLOURS - _COMMON).getpalette() or [])
    palette_colours: list[Colour] = []
    for colour in (*common, *zip(parts, parts, parts, strict=True)):
        if not _near(colour, palette_colours):
            palette_colours.append(colour)
    palette = Image.new("P", (1, 1))
    # All 256 entries, because those left away would be greys.
    palette.putpalette([part for colour in palette_colours * 256 for part in colour][: 3 * 256])
    return palette


def _near(colour: Colour, others: list[Colour]) -> bool:
    """Return whether Pillow, which looks colours up in steps of 4, could take it for one of the others."""
    return any(max(abs(a - b) for a, b in zip(colour, other, strict=True)) <= 4 for other in others)


def _add_captions(name: str, frame: ReplayFrame, episode: str) -> "Image":
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.fromarray(frame.picture)
    larger = -(-_NARROWEST // picture.width)
    picture = picture.resize((larger * picture.width, larger * picture.height), Image.Resampling.NEAREST)
    right, bottom = _MARGIN + picture.width, _MARGIN + picture.height
    letters = max(_LETTERS, round(picture.width * _OF_WIDTH))
    lines = 3 if frame.sides else 2
    image = Image.new("RGB", (right + _MARGIN, bottom + round((_SPACE + _LINE * lines) * letters)), "white")
    image.paste(picture, (_MARGIN, _MARGIN))
    canvas = ImageDraw.Draw(image)
    canvas.font = ImageFont.load_default(letters)
    canvas.rectangle((_MARGIN - 1, _MARGIN - 1, right, bottom), outline=_FRAME)
    figures = f"{episode}   step {frame.step}"
    if not frame.sides:
        figures += f"   return {figure(frame.total, 2)}"
    for line, text in enumerate((name, figures)):
        top = bottom + round((_TOP + _LINE * line) * letters)
        canvas.text((_MARGIN, top), _fitting(canvas, text, picture.width), fill="black")
    _add_sides(canvas, frame.sides, bottom + round((_TOP + 2 * _LINE) * letters), letters, picture.width)
    return image


def _add_sides(canvas: "ImageDraw", sides: Sequence[SideReturns], top: int, letters: int, width: int) -> None:
    at = float(_MARGIN)
    for side in sides:
        if side.colour is not None:
            fill = tuple(round(255 * part) for part in side.colour)
            canvas.rectangle((at, top + 1, at + letters - 1, top + letters), fill=fill, outline="black")
            at += 1.4 * letters
        text = _fitting(canvas, f"{side.name} {figure(side.total, 2)}", round(_MARGIN + width - at))
        canvas.text((at, top), text, fill="black")
        at += canvas.textlength(text) + 2 * letters


def _fitting(canvas: "ImageDraw", text: str, width: int) -> str:
    if canvas.textlength(text) <= width:
        return text
    while text and canvas.textlength(f"{text}...") > width:
        text = text[:-1]
    return f"{text}..."


def _beside(images: list["Image"]) -> "Image":
    from PIL import Image

    whole = Image.new("RGB", (sum(image.width for image in images), max(image.height for image in images)), "white")
    x_left = 0
    for image in images:
        whole.paste(image, (x_left, 0))
        x_left += image.width
    return whole
