"""Results as text and tables, the axes of charts, and the settings that a page shows."""

import itertools
import math
from html.parser import HTMLParser

import numpy as np
import pytest

from marless.coordinator.config.loading import load, load_with_origins
from marless.functions.algorithms.registry import ALGORITHMS
from marless.page import axis_numbers
from marless.page.chart import ChartLine, Size, frame_of
from marless.page.run_settings import command, settings
from marless.reports import plot_style
from marless.reports.notebook.shown_result import ShownResult
from marless.reports.section import Section


class Cells(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.cells, self.inside = [], False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.inside = tag in ("td", "th")
        self.cells += [""] * self.inside

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.cells[-1] += data


def shown(*tables):
    class Made(ShownResult):
        headline, sections, sentences = "two arms", tables, ("a < b",)

    return Made()


def test_a_result_is_one_short_line_of_text():
    assert repr(shown()) == str(shown()) == "<Made: two arms>"
    made = shown()
    type(made).headline = "arm " * 400
    assert len(repr(made)) <= 1_000 and repr(made).endswith("arm...>")


def test_a_result_has_records_and_a_picture():
    made = shown(
        Section("Return", ("arm", "return", ""), (("a", "-1,057.8 (-1,059 to -56.2)", "5 m"), ("b", "$2e-3", "-")))
    )
    assert made.records == [{"arm": "a", "return": -1057.8, "note": 5.0}, {"arm": "b", "return": 0.002, "note": "-"}]
    assert [axes.get_title() for axes in made.plot().axes] == ["return", ""]


def test_cell_tables_hold_escaped_text():
    made = shown(Section("Return", ("arm", "seeds"), (("<b>&", "3 *"),), conclusions=("**a** wins",), footnote="* few"))
    page = made._repr_html_()
    assert Cells(page).cells == ["arm", "seeds", "<b>&", "3 *"]
    assert "<li>a &lt; b</li>" in page and "<small>a wins</small>" in page and "<small>* few</small>" in page


def test_a_long_table_is_cut_and_says_so():
    page = shown(Section("", ("n",), tuple((str(n),) for n in range(1_150))))._repr_html_()
    assert Cells(page).cells == ["n", *map(str, range(100))] and "and 1,050 more rows" in page


def test_secrets_of_this_process_are_not_shown(shell):
    shell.export(MY_API_KEY="s3cr3t-s3cr3t")
    page = shown(Section("", ("url",), (("https://s3cr3t-s3cr3t@host",),)))._repr_html_()
    assert "s3cr3t" not in page


VALUES = (0.0, 5e-324, 1e-310, 1e-300, -1.0, 3.0, 3.0000000000000004, 1e16, 1e16 + 2, 1e44, -1e44)


@pytest.mark.parametrize(("one", "other"), itertools.product(VALUES, VALUES))
def test_two_values_have_place_and_axis_ticks(one, other):
    frame = frame_of([ChartLine("a", [0, 0], [one, other])], Size())
    places = [frame.up(one), frame.up(other), frame.across(0)]
    assert all(map(math.isfinite, places)) and (places[0] - places[1]) * (other - one) >= 0
    assert 0 < len(axis_numbers.labels(axis_numbers.ticks(*frame.y))) <= 7
    of_pair = np.array([one, other])
    bottom, top = plot_style._limits([plot_style.PlotLine(np.array([1.0, 2.0]), of_pair, of_pair, of_pair)])
    assert bottom < top and bottom <= min(one, other) and max(one, other) <= top


@pytest.mark.parametrize("name", [spec.name for spec in ALGORITHMS.ours()])
def test_the_command_names_what_differs_for_every_algorithm(name):
    """Imitation needs a dataset for its defaults, and speaking agents need a language task."""
    needed = {"bc": ["offline.dataset=data"], "grpo": ["task.name=text/relay"]}
    given = [f"algorithm.name={name}", "seed=7", *needed.get(name, [])]
    config = load(None, given)
    words = command(config).split()
    assert words[:2] == ["marless", "train"] and load(None, words[2:]) == config
    assert {*words[2:]} == {*given} and command(load_with_origins(None, ["seed=7"])[0]) == "marless train seed=7"
    assert {each.key for each in settings(config) if each.differs} == {word.split("=")[0] for word in words[2:]}
