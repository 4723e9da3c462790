"""Plays a run's team in a window: `marless replay --live`."""

from marless import extras
from marless.coordinator.errors import UserError
from marless.infra.local.pictures.pygame_window import CLOSED, NoDisplay, Window
from marless.program import program_name
from marless.replays.animation import Animation

KEYS = "space: pause   right arrow: one step   r: the episode again   n: the next episode   q: quit"
_QUIT = {CLOSED, "q", "escape"}


def open_window(title: str, command: str) -> Window:
    """Open the window for replays of the `command`, such as ``replay my_run``. Raises `UserError` without a display.

    It has to be opened before environments are made, because some of them change how pygame finds the display.
    """
    extras.require("live", f"marless {command.split()[0]} --live")
    try:
        return Window(f"MARLess: {title}")
    except NoDisplay as error:
        without = f"{program_name()} {command} --out team.gif"
        raise UserError(f"--live needs a display: {error}; without one write a file: {without}") from error


class Playback:
    """The current image of an animation on screen. After the last episode the first begins again."""

    def __init__(self, animation: Animation) -> None:
        self._drawn = animation
        self.paused = False
        self._begin(0)

    @property
    def stays_ms(self) -> int | None:
        """The milliseconds of the image, or None until a key is pressed."""
        return None if self.paused else self.still.frames * self._drawn.frame_ms

    def step(self) -> None:
        """The next image, of this episode or the next one."""
        if (later := next(self._stills, None)) is None:
            self.next_episode()
        else:
            self.still = later

    def pause(self) -> None:
        """Stop or continue."""
        self.paused = not self.paused

    def single_step(self) -> None:
        """The next image, which stays."""
        self.paused = True
        self.step()

    def repeat(self) -> None:
        """The episode from its start."""
        self._begin(self._number)

    def next_episode(self) -> None:
        """The next episode from its start."""
        self._begin((self._number + 1) % self._drawn.episodes)

    def _begin(self, number: int) -> None:
        self._number, self._stills = number, self._drawn.episode(number)
        self.still = next(self._stills)


_DOES = {
    "space": Playback.pause,
    "right": Playback.single_step,
    "r": Playback.repeat,
    "n": Playback.next_episode,
    # No key came in time.
    None: Playback.step,
}


def play(playback: Playback, window: Window) -> None:
    """Show images and obey keys until the window is closed."""
    pressed_key = None
    while pressed_key not in _QUIT:
        image = playback.still.image
        window.show(image.tobytes(), image.size)
        pressed_key = window.key(playback.stays_ms)
        _DOES.get(pressed_key, _nothing)(playback)


def _nothing(playback: Playback) -> None:
    """Of other keys."""
