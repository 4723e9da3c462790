"""Results as a line of text, and as tables in HTML."""

from html.parser import HTMLParser

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


def test_tables_of_a_cell_hold_text_and_no_markup_of_names():
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
