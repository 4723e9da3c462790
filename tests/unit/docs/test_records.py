"""Pages of results are compared with stored records."""

import json

import pytest

from benchmarks.records.page import Page
from benchmarks.records.queries import BadQuery, Records
from benchmarks.records.sources import Lines, Numbers, Sources, Stated, Unrecorded

TABLE = "arm,seed,return,note\na,1,1.5,\na,2,2.5,\nb,1,-8,slow\nb,2,-12,slow\n"
NUMBERS = Numbers(text="Arm `a` returns {} of 3 seeds", values=["mean [arm=a].return | .1f"], record="arms.csv")


@pytest.fixture
def folder(tmp_path):
    results = tmp_path / "docs/results"
    results.mkdir(parents=True)
    (results / "arms.csv").write_text(TABLE)
    (results / "speed.json").write_text(json.dumps({"rows": [{"name": "one, 1 + 1", "ms": [3, 1, 2]}], "a.b": 7}))
    (results / "lines.jsonl").write_text('{"seed": 1, "x": 4}\n{"seed": 2, "x": 6}\n')
    return tmp_path


def checked(folder, text, **sources):
    """Return a page of this text after it was compared with its sources."""
    (folder / "page.md").write_text(text)
    page = Page(folder / "page.md", Records(folder))
    page.check(Sources(**sources))
    return page


def faults(folder, text, **sources):
    return checked(folder, text, **sources).faults


# The values are counted by hand.
@pytest.mark.parametrize(
    ("query", "record", "value"),
    [
        ("mean return | .2f", "arms.csv", "-4.00"),
        ("mean [arm=a].return / mean [arm=b].return | .2f", "arms.csv", "-0.20"),
        ("100 * count [arm=b;seed=2].return / count return | .0f", "arms.csv", "25"),
        ("count [arm=b].note | d", "arms.csv", "2"),
        ("text [arm=a;seed=2].return", "arms.csv", "2.5"),
        ("median rows[name=one, 1 + 1].ms - least rows.ms | .0f", "speed.json", "1"),
        ('only "a.b" | .1f', "speed.json", "7.0"),
        ("most x - least x | d", "lines.jsonl", "2.0"),
        ("sum x + least speed.json:rows.ms | .0f", "lines.jsonl", "11"),
        # Student's t at 97.5 % with one degree of freedom is tan(0.475 pi) = 12.7062.
        ("half [arm=a].return | .4f", "arms.csv", "6.3531"),
    ],
)
def test_a_query_is_answered_by_the_record(folder, query, record, value):
    if query.endswith("| d"):
        query, value = query.replace("| d", "| g"), f"{float(value):g}"
    assert Records(folder).answer(query, record) == value


@pytest.mark.parametrize(
    ("query", "record", "line"),
    [
        ("mean return | .1f", "gone.csv", "gone.csv is lost"),
        ("mean reward | .1f", "arms.csv", "the record has no reward"),
        ("average return | .1f", "arms.csv", "no statistic is called average"),
        ("only return | .1f", "arms.csv", "one value is expected, the record has 4"),
        ("mean [arm=c].return | .1f", "arms.csv", "the record has no such value"),
        ("mean note | .1f", "arms.csv", "could not convert"),
        ("text [arm=a].return", "arms.csv", "one cell is expected, the record has 2"),
    ],
)
def test_a_query_without_an_answer_says_why(folder, query, record, line):
    with pytest.raises(BadQuery, match=line):
        Records(folder).answer(query, record)


def test_page_with_sourced_numbers_has_no_fault(folder):
    text = """Arm `a` returns 2.0 of 3
seeds, at 95 % on 2026-11-28 by 1647d0b and 4f3492c9, 2026-11-27, Python 3.11.7,
seeds 1 to 5, rank-4, see [rows](34.md). Smith et al. 2022: 77 %.

| n | typed |
|---|---|
| 1 | 99 |

`88` No record. 66

<!-- summary: written by `make docs` -->
44
<!-- end of summary -->
"""
    stated = [Stated(why="published", texts=["77 %"])]
    unrecorded = [Unrecorded(mark="No record.", tables=["| n | typed"], texts=["66"])]
    assert faults(folder, text, numbers=[NUMBERS], stated=stated, unrecorded=unrecorded) == []


def test_digit_that_differs_from_record_is_fault(folder):
    text = "# A\n\nArm `a` returns 2.1 of 3 seeds\n"
    assert faults(folder, text, numbers=[NUMBERS]) == [
        "page.md:3: 2.1 is 2.0 in the record (mean [arm=a].return | .1f of arms.csv)"
    ]
    assert checked(folder, text, numbers=[NUMBERS]).rewritten() == text.replace("2.1", "2.0")


def test_a_lost_record_is_a_fault(folder):
    (folder / "docs/results/arms.csv").unlink()
    (line,) = faults(folder, "Arm `a` returns 2.0 of 3 seeds\n", numbers=[NUMBERS])
    assert line.startswith("page.md:1: ") and "docs/results/arms.csv is lost" in line


def test_a_number_without_a_source_is_a_fault(folder):
    lines = faults(folder, "Arm `a` returns 2.0 of 3 seeds, in 7 s.\n", numbers=[NUMBERS])
    assert lines == ["page.md:1: 7 has no source: …Arm `a` returns 2.0 of 3 seeds, in 7 s.…"]


def test_measured_number_in_words_of_source_is_fault(folder):
    numbers = Numbers(text="returns {} in 7.5 s", values=NUMBERS.values, record="arms.csv")
    (line,) = faults(folder, "returns 2.0 in 7.5 s\n", numbers=[numbers])
    assert line.startswith("page.md:1: 7.5 has no source")


def test_table_row_is_compared_for_each_name(folder):
    numbers = Numbers(
        text="| {0} | {} |", values=["mean [arm={0}].return | .0f"], record="arms.csv", rows=[["a"], ["b"]]
    )
    assert faults(folder, "| a | 2 |\n| b | -10 |\n", numbers=[numbers]) == []
    (line,) = faults(folder, "| a | 2 |\n| b | -11 |\n", numbers=[numbers])
    assert line.startswith("page.md:2: -11 is -10 in the record")


def test_lines_and_texts_missing_in_page_are_faults(folder):
    sources = {"numbers": [NUMBERS], "stated": [Stated(why="a setting", texts=["64 environments"])]}
    lines = faults(folder, "Nothing\n", **sources, unrecorded=[Unrecorded(mark="No record.")])
    assert len(lines) == 3 and all(line.endswith("which is not on the page") for line in lines)


def two_lines():
    return ["| 1 |", "| 2 |"]


def one_text():
    return "| 1 |\n| 2 |"


def test_lines_of_a_function_stand_on_the_page(folder):
    sources = {"lines": [Lines(f"{__name__}:two_lines")]}
    assert faults(folder, "| 1 |\n| 2 |\n", **sources) == []
    assert faults(folder, "| 1 |\n| 3 |\n", **sources) == [
        f"page.md: {__name__}:two_lines writes '| 2 |', which is not on the page",
        "page.md:2: 3 has no source: …| 1 | | 3 |…",
    ]
    assert len(faults(folder, "| 1 |\n| 3 |\n", lines=[Lines(f"{__name__}:one_text")])) == 2


def test_the_settings_of_a_guide_are_counted(folder):
    stated = [Stated(why="settings", others=2)]
    assert faults(folder, "3 workers and 4 rounds\n", stated=stated) == []
    assert faults(folder, "3 workers and 4 rounds, 5 s\n", stated=stated)[0] == (
        "page.md: 3 numbers have no source, and its sources state 2 others"
    )
