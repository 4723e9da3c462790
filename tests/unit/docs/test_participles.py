"""The count of names that are bare participles."""

import pytest

from scripts.participles import ROOT, Name, is_participle, names, pronouns, worst

SOURCE = """
limited = 1

class Run:
    saved: int
    bytes_sent: int = 0

    def kept(self, given, /, *named, told=1, **kwargs):
        found, count = 1, 2
        found = [seen for seen in given]
        try:
            pass
        except ValueError as made:
            pass
        return lambda own: own
"""


def test_parameters_locals_fields_and_functions_are_names_and_each_counts_once_in_its_scope(tmp_path):
    path = tmp_path / "run.py"
    path.write_text(SOURCE)
    assert sorted((name.scope, name.text) for name in names(path)) == [
        ("Run", "bytes_sent"),
        ("Run", "kept"),
        ("Run", "saved"),
        ("Run.kept", "count"),
        ("Run.kept", "found"),
        ("Run.kept", "given"),
        ("Run.kept", "kwargs"),
        ("Run.kept", "made"),
        ("Run.kept", "named"),
        ("Run.kept", "seen"),
        ("Run.kept", "told"),
        ("Run.kept.lambda", "own"),
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("found", True),
        ("_stored", True),
        ("unfinished", True),
        ("stored_bytes", False),
        ("seed", False),
        ("red", False),
    ],
)
def test_a_bare_participle_is_one_word(name, expected):
    assert is_participle(name) == expected


def test_the_worst_words_are_refused_as_names():
    bound = [Name(ROOT / "scripts" / "a.py", 1, "f", text) for text in ("found", "_seen", "saved", "count")]
    assert [name.text for name in worst(bound)] == ["found", "_seen"]


def test_pronouns_are_counted_but_not_operands_of_special_methods_and_stored_fields():
    bound = [
        *(Name(ROOT / "scripts" / "a.py", 1, "f", text) for text in ("each", "_there", "each_row", "other", "count")),
        Name(ROOT / "scripts" / "a.py", 1, "Sum.__add__", "other"),
        Name(ROOT / "scripts" / "a.py", 1, "Failed", "again"),
    ]
    assert [name.text for name in pronouns(bound)] == ["each", "_there", "other"]
