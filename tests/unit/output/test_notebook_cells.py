"""Output below a notebook cell: a drawing that is replaced, as HTML and as text."""

from types import SimpleNamespace

import pytest
from rich.text import Text

from marless import output
from marless.views import cell_progress, choose_view
from marless.views.plain import PlainView
from marless.views.surface import NotebookCell
from marless.views.terminal_panel import LiveView


class Cell(list):
    """Replaces `IPython.display.display` and records the shown objects in order."""

    def display(self, drawn, display_id):
        assert display_id is True
        self.update(drawn)
        return self

    def update(self, drawn):
        self.append(drawn._repr_mimebundle_(include=None, exclude=None))


@pytest.fixture
def cell(shell):
    cell = Cell()
    shell_of_ipython = SimpleNamespace(kernel=object())
    ipython = SimpleNamespace(get_ipython=lambda: shell_of_ipython, display=SimpleNamespace(display=cell.display))
    shell.provide({"IPython": ipython})
    return cell


def test_drawing_is_replaced_and_foreign_text_escaped():
    cell = Cell()
    surface = NotebookCell(cell.display)
    surface.start()
    surface.draw(Text("1 of 2", "bold"))
    surface.draw(Text("<script>2 of 2"))
    assert [bundle["text/plain"] for bundle in cell] == ["1 of 2", "<script>2 of 2"]
    assert "font-weight: bold" in cell[0]["text/html"] and "&lt;script&gt;2 of 2" in cell[1]["text/html"]


def test_training_is_panel_in_notebook_and_lines_elsewhere(cell, shell):
    assert isinstance(choose_view(json=False), LiveView)
    shell.uninstall("IPython")
    assert output.notebook_display() is None
    assert isinstance(choose_view(json=False), PlainView)


def test_call_shows_progress_until_it_returns(cell):
    with cell_progress() as progress:
        progress("160 of 320 episodes")
    assert [bundle["text/plain"] for bundle in cell] == ["160 of 320 episodes", ""]
    with cell_progress():
        pass
    assert len(cell) == 2
