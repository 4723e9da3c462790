"""Panels side by side, frame by frame."""

import io

import numpy as np
import pytest

pytest.importorskip("PIL")

from PIL import Image, ImageSequence

from marless.replays.animation import Animation, Panel, gif
from marless.replays.greedy_episodes import ReplayFrame, SideReturns


def episode(steps, colour, size=(300, 260)):
    return [ReplayFrame(np.full((*size, 3), colour + step, np.uint8), step, -1.0 * step) for step in range(steps + 1)]


def animation(*teams):
    panels = [Panel(name, episodes.__getitem__) for name, episodes in teams]
    return Animation(panels, len(teams[0][1]), frame_ms=80)


def test_ended_episode_waits_for_longer_episode():
    short, long = ("short", [episode(1, 0), episode(2, 0)]), ("long", [episode(3, 100), episode(1, 100)])
    images = list(animation(short, long).stills())
    assert [still.frames for still in images] == [1, 1, 1, 10, 1, 1, 10]
    one = list(animation(short).stills())
    assert all(still.image.width == 2 * one[0].image.width for still in images)
    middle = images[0].image.width // 4, images[0].image.height // 2
    left = [still.image.getpixel(middle)[0] for still in images]
    right = [still.image.getpixel((3 * middle[0], middle[1]))[0] for still in images]
    assert left == [0, 1, 1, 1, 0, 1, 2]
    assert right == [100, 101, 102, 103, 100, 101, 101]


def test_every_frame_is_kept_with_its_time():
    equal = [ReplayFrame(np.zeros((300, 260, 3), np.uint8), 0, 0.0)] * 4
    drawn = Image.open(io.BytesIO(gif(animation(("a team", [equal])))))
    assert [frame.info["duration"] for frame in ImageSequence.Iterator(drawn)] == [80, 80, 80, 800]


def test_common_colours_stay_as_they_are():
    pictures = [np.full((300, 260, 3), 255, np.uint8) for _ in range(3)]
    for step, part in enumerate(pictures):
        part[10 * step : 10 * step + 200, 50:90] = (70, 70, 170)
        # A slope of many colours, and one that is nearly white.
        part[100:150, 100:250] = np.arange(150)[None, :, None]
        part[200:230, 100:250] = 253
    frames = [ReplayFrame(part, step, 0.0) for step, part in enumerate(pictures)]
    drawn = Image.open(io.BytesIO(gif(animation(("a team", [frames])))))
    for image in ImageSequence.Iterator(drawn):
        shown = image.convert("RGB")
        assert shown.getpixel((4 + 70, 4 + 100)) == (70, 70, 170)
        assert shown.getpixel((4 + 20, 4 + 100)) == (255, 255, 255)


def test_small_pictures_grow_and_long_names_are_cut():
    (still,) = animation(("a name that is much too long " * 9, [episode(0, 7, (10, 50))])).stills()
    assert still.image.size[0] == 5 * 50 + 8
    assert still.image.getpixel((still.image.width - 2, 60)) == (255, 255, 255)


def test_letters_grow_with_large_pictures():
    heights = {}
    for width in (300, 1280):
        (still,) = animation(("a team", [episode(0, 255, (100, width))])).stills()
        # Dark pixels of the first line's letters.
        below = np.asarray(still.image.convert("L"))[108:-1] < 128
        rows = np.flatnonzero(below.any(axis=1))
        first = rows[: np.flatnonzero(np.diff(rows) > 1)[0] + 1]
        heights[width] = len(first)
    # Letters of size 10 and of 32.
    assert 2.5 < heights[1280] / heights[300] < 4


def test_side_returns_have_own_line_with_colours():
    blank = np.full((300, 260, 3), 255, np.uint8)
    sides = (SideReturns("red", 1.0, (1.0, 0.0, 0.0)), SideReturns("blue", -1.0, (0.0, 0.0, 1.0)))
    (plain,) = animation(("a team", [[ReplayFrame(blank, 0, 0.0)]])).stills()
    (still,) = animation(("a team", [[ReplayFrame(blank, 0, 0.0, sides)]])).stills()
    assert still.image.height == plain.image.height + 14
    line = np.asarray(still.image)[-18:]
    red, blue = (np.flatnonzero((line == colour).all(axis=-1).any(axis=0)) for colour in ((255, 0, 0), (0, 0, 255)))
    assert red.size and blue.size and red.max() < blue.min()
