"""A window on this machine's screen, by pygame."""

import os
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import pygame

CLOSED = "closed"
# On Linux: the variables of displays, and the names of their drivers in SDL, the library under pygame. By default SDL
# continues even if it cannot open a screen.
_DRIVERS = {"DISPLAY": "x11", "WAYLAND_DISPLAY": "wayland"}
# In ms: signals are handled between two looks at the keyboard.
_LOOK = 50
# Of the screen, the largest part that a window takes by itself.
_LARGEST = 0.9


class NoDisplay(Exception):
    """No window can be opened. The message says why."""


class Window:
    """Images, one after the other, and the keys that are pressed meanwhile.

    It opens with the first image and can be resized: images are scaled and keep their proportions. Environments may use
    pygame themselves, and close its displays: then the next image opens the window again.
    """

    def __init__(self, title: str) -> None:
        """Raises `NoDisplay`."""
        if sys.platform.startswith("linux"):
            _choose_driver()
        # pygame greets on standard output.
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        import pygame

        self._title = title
        self._shown: tuple[bytes, tuple[int, int]] | None = None
        self._due = 0.0
        try:
            pygame.display.init()
        except pygame.error as error:
            raise NoDisplay(str(error)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        import pygame

        pygame.display.quit()

    def show(self, pixels: bytes, size: tuple[int, int]) -> None:
        """Shows ``[H, W, 3]`` bytes of the `size` (W, H)."""
        self._shown = pixels, size
        self._draw()

    def key(self, within_ms: int | None) -> str | None:
        """The next key that is pressed, by pygame's names ("space", "right", "a"), or `CLOSED` by the window's button.

        None if there is none within `within_ms` of the time when the image was due. `within_ms` of None is no limit.
        """
        import pygame

        now = time.monotonic()
        if within_ms is not None:
            # Counted from when the last image's time was over, so that the time of drawing does not add up.
            late = now - self._due
            self._due = (self._due if late < within_ms / 1000 else now) + within_ms / 1000
        while within_ms is None or now < self._due:
            left_ms = _LOOK if within_ms is None else min(_LOOK, 1 + round(1000 * (self._due - now)))
            event = pygame.event.wait(left_ms)
            if event.type == pygame.QUIT:
                return CLOSED
            if event.type == pygame.KEYDOWN:
                self._due = 0.0
                return pygame.key.name(event.key)
            if event.type in (pygame.VIDEORESIZE, pygame.VIDEOEXPOSE):
                self._draw()
            now = time.monotonic()
        return None

    def _draw(self) -> None:
        import pygame

        assert self._shown is not None
        pixels, (width, height) = self._shown
        surface = pygame.display.get_surface() or self._open(width, height)
        scale = min(surface.get_width() / width, surface.get_height() / height)
        image = pygame.image.frombuffer(pixels, (width, height), "RGB")
        fitting = pygame.transform.smoothscale(image, (round(scale * width), round(scale * height)))
        surface.fill("white")
        surface.blit(fitting, fitting.get_rect(center=surface.get_rect().center))
        pygame.display.flip()

    def _open(self, width: int, height: int) -> "pygame.Surface":
        import pygame

        pygame.display.init()
        pygame.display.set_caption(self._title)
        screen = pygame.display.get_desktop_sizes()[0]
        scale = min(1.0, _LARGEST * screen[0] / width, _LARGEST * screen[1] / height)
        return pygame.display.set_mode((round(scale * width), round(scale * height)), pygame.RESIZABLE)


def _choose_driver() -> None:
    drivers = [driver for display, driver in _DRIVERS.items() if os.environ.get(display)]
    if not drivers and not os.environ.get("SDL_VIDEODRIVER"):
        raise NoDisplay(f"neither {' nor '.join(_DRIVERS)} is set")
    os.environ.setdefault("SDL_VIDEODRIVER", ",".join(drivers))
