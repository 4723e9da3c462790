"""Episodes in a window: keys work, and the window affects nothing else."""

import sys
import time

import numpy as np
import pytest

pytest.importorskip("PIL")
pytest.importorskip("pygame")

import pygame

from marless.infra.local.pictures.pygame_window import CLOSED, NoDisplay, Window
from marless.replays.animation import Animation, Panel
from marless.replays.greedy_episodes import ReplayFrame
from marless.replays.replay_window import Playback, play


class Played:
    def __init__(self):
        self.drawn = [0, 0]

    def episode(self, number):
        for step in range(3):
            self.drawn[number] += 1
            yield ReplayFrame(np.full((300, 260, 3), 100 * number + step, np.uint8), step, 0.0)


def animation(played):
    return Animation([Panel("a team", played.episode)], episodes=2, frame_ms=40)


def shade(playback):
    """The colour of the picture, which tells its episode and step."""
    return playback.still.image.getpixel((20, 20))[0]


def test_frames_are_drawn_on_time_and_episodes_repeat():
    played = Played()
    playback = Playback(animation(played))
    # One more than the one on screen, which tells whether it is the episode's last.
    assert played.drawn == [2, 0]
    seen = []
    for _ in range(7):
        seen.append((shade(playback), playback.stays_ms))
        playback.step()
    assert seen == [(0, 40), (1, 40), (2, 800), (100, 40), (101, 40), (102, 800), (0, 40)]


def test_keys_pause_step_repeat_and_skip():
    playback = Playback(animation(Played()))
    playback.pause()
    assert (shade(playback), playback.stays_ms) == (0, None)
    playback.pause()
    assert playback.stays_ms == 40
    playback.single_step()
    assert (shade(playback), playback.stays_ms) == (1, None)
    playback.repeat()
    assert (shade(playback), playback.stays_ms) == (0, None)
    playback.next_episode()
    playback.single_step()
    assert shade(playback) == 101
    playback.repeat()
    assert shade(playback) == 100
    playback.next_episode()
    assert shade(playback) == 0


@pytest.fixture
def window(shell):
    shell.export(SDL_VIDEODRIVER="dummy")
    with Window("a run") as opened:
        yield opened


def press(*keys):
    for key in keys:
        pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=key))


def on_screen():
    return tuple(pygame.display.get_surface().get_at((20, 20)))[:3]


@pytest.mark.parametrize("last", [pygame.K_q, pygame.K_ESCAPE])
def test_the_window_shows_what_the_keys_ask_for(window, last):
    playback = Playback(animation(Played()))
    press(pygame.K_SPACE, pygame.K_RIGHT, pygame.K_n, pygame.K_x, pygame.K_RIGHT, pygame.K_RIGHT, last)
    play(playback, window)
    assert shade(playback) == 102 and on_screen() == (102, 102, 102)


def test_the_button_of_the_window_closes_it(window):
    window.show(bytes(300), (10, 10))
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    assert window.key(None) == CLOSED


def test_images_keep_rate_despite_slow_drawing(window):
    def shown_s():
        began = time.monotonic()
        for _ in range(10):
            window.show(bytes(300), (10, 10))
            time.sleep(0.045)
            assert window.key(50) is None
        return time.monotonic() - began

    spans = (shown_s() for _ in range(100))  # a busy machine holds up most of them
    assert next((span for span in spans if span < 0.5 + 0.45), 0.0) >= 0.5


def test_a_resized_window_keeps_the_proportions(window):
    window.show(b"\x00" * 300, (10, 10))
    pygame.display.set_mode((40, 20), pygame.RESIZABLE)
    window.show(b"\x00" * 300, (10, 10))
    surface = pygame.display.get_surface()
    row = [surface.get_at((x, 10))[0] for x in range(40)]
    assert row == [255] * 10 + [0] * 20 + [255] * 10


def test_environment_that_ends_pygame_keeps_window(window):
    window.show(bytes(300), (10, 10))
    pygame.quit()
    window.show(b"\x07" * 300, (10, 10))
    assert tuple(pygame.display.get_surface().get_at((5, 5)))[:3] == (7, 7, 7)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a window needs no variable")
@pytest.mark.parametrize("display", [{}, {"DISPLAY": ":4711"}], ids=["none", "not there"])
def test_without_a_display_there_is_no_window(shell, display):
    # The window's settings are gone afterwards.
    shell.export(SDL_VIDEODRIVER="")
    shell.unset("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")
    shell.export(**display)
    with pytest.raises(NoDisplay, match="x11 not available" if display else "neither DISPLAY nor WAYLAND_DISPLAY"):
        Window("a run")
