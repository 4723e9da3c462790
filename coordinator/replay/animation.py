"""Episodes as an animation: panels side by side, each with its name and figures below its picture."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from coordinator.replay.episodes import Episode, Frame

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

# Of a frame. The last frame of an episode stays for several times as long.
FRAME_MS = 80
_LAST = 10
# Pixels around a picture, which has a thin frame, and of the two lines below it.
_MARGIN = 4
_CAPTION = 34
_FRAME = "silver"
# So narrow at least that figures fit.
_NARROWEST = 240
# Of the palette, how many of them are the commonest, and of how many images it is made.
_COLOURS, _COMMON, _SAMPLED = 128, 32, 12
_WHITE = (255, 255, 255)

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class Panel:
    """A team's name and its episodes."""

    name: str
    episodes: list[Episode]


@dataclass(frozen=True)
class Still:
    """One image of the animation and how long it stays, in frames."""

    image: "Image"
    frames: int


def stills(panels: Sequence[Panel]) -> Iterator[Still]:
    """All images in order; a panel whose episode has ended holds its last frame until the others' have."""
    count = len(panels[0].episodes)
    for number in range(count):
        episodes = [panel.episodes[number] for panel in panels]
        steps = max(map(len, episodes))
        for step in range(steps):
            drawn = [
                _captioned(panel.name, episode[min(step, len(episode) - 1)], f"episode {number + 1} of {count}")
                for panel, episode in zip(panels, episodes, strict=True)
            ]
            yield Still(_beside(drawn), _LAST if step == steps - 1 else 1)


def gif(panels: Sequence[Panel]) -> bytes:
    """The bytes of the animated GIF; one palette for all images keeps what does not move as it is."""
    from PIL import Image

    drawn = list(stills(panels))
    palette = _palette([still.image for still in drawn])
    images = []
    for number, still in enumerate(drawn):
        # A last pixel that differs keeps Pillow from joining equal frames.
        still.image.putpixel((still.image.width - 1, still.image.height - 1), (0, 0, 0) if number % 2 else _WHITE)
        images.append(still.image.quantize(palette=palette, dither=Image.Dither.NONE))
    body = io.BytesIO()
    durations = [FRAME_MS * still.frames for still in drawn]
    images[0].save(body, "GIF", save_all=True, append_images=images[1:], duration=durations, loop=0)
    return body.getvalue()


def _palette(images: list["Image"]) -> "Image":
    """A palette for all images: the commonest colours as they are, and what stands for the rest best."""
    from PIL import Image

    # The first of every few.
    some = _beside(images[:: -(-len(images) // _SAMPLED)])
    counted = cast(list[tuple[int, Colour]], some.getcolors(some.width * some.height))
    common = [colour for _, colour in sorted(counted, reverse=True)[:_COMMON]]
    parts = iter(some.quantize(_COLOURS - _COMMON).getpalette() or [])
    chosen: list[Colour] = []
    for colour in (*common, *zip(parts, parts, parts, strict=True)):
        if not _near(colour, chosen):
            chosen.append(colour)
    palette = Image.new("P", (1, 1))
    # All 256 entries, because those left away would be greys.
    palette.putpalette([part for colour in chosen * 256 for part in colour][: 3 * 256])
    return palette


def _near(colour: Colour, others: list[Colour]) -> bool:
    """Whether Pillow, which looks colours up in steps of 4, could take it for one of the others."""
    return any(max(abs(a - b) for a, b in zip(colour, other, strict=True)) <= 4 for other in others)


def _captioned(name: str, frame: Frame, episode: str) -> "Image":
    """The picture, enlarged where captions would not fit, and two lines below it."""
    from PIL import Image, ImageDraw

    drawn = Image.fromarray(frame.picture)
    larger = -(-_NARROWEST // drawn.width)
    drawn = drawn.resize((larger * drawn.width, larger * drawn.height), Image.Resampling.NEAREST)
    right, bottom = _MARGIN + drawn.width, _MARGIN + drawn.height
    image = Image.new("RGB", (right + _MARGIN, bottom + _CAPTION), "white")
    image.paste(drawn, (_MARGIN, _MARGIN))
    canvas = ImageDraw.Draw(image)
    canvas.rectangle((_MARGIN - 1, _MARGIN - 1, right, bottom), outline=_FRAME)
    figures = f"{episode}   step {frame.step}   return {frame.total:.2f}"
    for line, text in enumerate((name, figures)):
        canvas.text((_MARGIN, bottom + 4 + 14 * line), _fitting(canvas, text, drawn.width), fill="black")
    return image


def _fitting(canvas: "ImageDraw", text: str, width: int) -> str:
    """As much of the text as fits."""
    if canvas.textlength(text) <= width:
        return text
    while text and canvas.textlength(f"{text}...") > width:
        text = text[:-1]
    return f"{text}..."


def _beside(images: list["Image"]) -> "Image":
    from PIL import Image

    whole = Image.new("RGB", (sum(image.width for image in images), max(image.height for image in images)), "white")
    left = 0
    for image in images:
        whole.paste(image, (left, 0))
        left += image.width
    return whole
