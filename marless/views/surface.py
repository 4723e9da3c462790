"""The surface of a live view: a terminal, or the output of a notebook's cell."""

import io
from html import escape
from typing import Any, Protocol

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from marless import output

_WIDTH, _HEIGHT = 100, 60
_PRE = "font-family:Menlo,Consolas,'DejaVu Sans Mono',monospace;line-height:1.25;margin:0;white-space:pre"


class Surface(Protocol):
    """A drawing that is replaced as often as there is news, above it lines that stay."""

    @property
    def width(self) -> int:
        """Columns."""

    @property
    def height(self) -> int:
        """Lines."""

    def start(self) -> None:
        """Shows the drawing from now on."""

    def draw(self, drawing: RenderableType) -> None:
        """Replaces the drawing."""

    def print(self, *lines: Text) -> None:
        """Adds lines that stay."""

    def stop(self, keep: bool = True) -> None:
        """Keep the last drawing, or remove it. Repeated calls are allowed."""


class Terminal:
    """The terminal of standard output."""

    def __init__(self) -> None:
        self._console = output.console()
        self._live = Live(console=self._console, auto_refresh=False)

    @property
    def width(self) -> int:
        """Columns."""
        return self._console.width

    @property
    def height(self) -> int:
        """Lines."""
        return self._console.height

    def start(self) -> None:
        """See `Surface`."""
        self._live.start()

    def draw(self, drawing: RenderableType) -> None:
        """See `Surface`."""
        self._live.update(drawing, refresh=True)

    def print(self, *lines: Text) -> None:
        """See `Surface`."""
        for line in lines:
            self._console.print(line, soft_wrap=True)

    def stop(self, keep: bool = True) -> None:
        """See `Surface`."""
        self._live.transient = not keep
        if self._live.is_started:
            self._live.stop()


class NotebookCell:
    """The output of the cell that runs now. `display` is IPython's."""

    width, height = _WIDTH, _HEIGHT

    def __init__(self, display: Any) -> None:
        self._display, self._handle = display, None

    def start(self) -> None:
        """See `Surface`."""

    def draw(self, drawing: RenderableType) -> None:
        """See `Surface`."""
        self._show(_Drawn(drawing, self.width))

    def print(self, *lines: Text) -> None:
        """See `Surface`."""
        output.say(*(line.plain for line in lines))

    def stop(self, keep: bool = True) -> None:
        """See `Surface`."""
        if not keep and self._handle is not None:
            self._show(_Drawn("", self.width))

    def _show(self, drawn: "_Drawn") -> None:
        if self._handle is None:
            self._handle = self._display(drawn, display_id=True)
        else:
            self._handle.update(drawn)


class _Drawn:
    # IPython picks the form that the notebook can show, text or HTML.
    def __init__(self, drawing: RenderableType, width: int) -> None:
        self._drawing, self._width = drawing, width

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        console = Console(
            file=io.StringIO(),
            record=True,
            width=self._width,
            force_terminal=False,
            force_jupyter=False,
            highlight=False,
        )
        console.print(self._drawing)
        text = console.export_text(clear=False).rstrip()
        html = console.export_html(inline_styles=True, code_format=f'<pre style="{escape(_PRE)}">{{code}}</pre>')
        return {"text/plain": text, "text/html": html if text else ""}


def live_surface() -> Surface:
    """Return the surface of a live view. `output.can_redraw` says whether there is one."""
    display = output.notebook_display()
    return Terminal() if display is None else NotebookCell(display)
