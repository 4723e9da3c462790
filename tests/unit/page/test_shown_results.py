"""Results as a line of text, and as tables in HTML."""

from html.parser import HTMLParser

from marless.reports.notebook.shown_result import ShownResult
from marless.reports.section import Section


class Cells(HTMLParser):
    """Collects the text of each table cell."""

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


def test_a_result_is_one_line_of_text():
    assert repr(shown()) == str(shown()) == "<Made: two arms>"


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
