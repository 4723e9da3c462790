"""The count of lines and statements, and budgets that may only fall."""

from pathlib import Path

from scripts.sizes import __main__ as sizes
from scripts.sizes import budgets


def test_each_part_has_the_sum_of_its_files(tmp_path):
    (one := tmp_path / "one.py").write_text("import os\n\n\ndef f():\n    return os\n")
    (two := tmp_path / "two.py").write_text("x = 1; y = 2\n")
    assert sizes.size_of(one) == (1, 5, 3) and sizes.size_of(one).plus(sizes.size_of(two)) == (2, 6, 5)


def test_links_and_tests_are_no_part_of_the_house():
    assert {path.parts[0] for path in sizes.tracked("*.py")} >= {*sizes.HOUSE, "tests"}
    assert not any((sizes.ROOT / path).is_symlink() for path in sizes.tracked("marless"))
    assert sizes.is_test(Path("packages/x/tests/test_x.py")) and not sizes.is_test(Path("marless/testing/x.py"))


def test_words_of_generated_blocks_and_pages_do_not_count():
    assert sizes.words("# A\n\n<!-- Written by `make docs`; edit the code instead. -->\n\na b\n") == 0
    assert sizes.words("a b <!-- t: written by `make docs` -->\n| x |\n<!-- end of t --> c\n") == 3


def test_every_budget_is_of_a_number():
    assert budgets.of_table(sizes.TABLE).keys() == sizes.counters().keys()


def test_a_number_above_its_budget_is_refused(capsys):
    most = budgets.of_table(sizes.TABLE)["lines of the house"]
    assert budgets.check(sizes.TABLE, {"lines of the house": most}, "remove {}") == 0
    assert budgets.check(sizes.TABLE, {"lines of the house": most + 1}, "remove {}") == 1
    said = f"lines of the house: {most + 1}, and its budget is {most}; remove lines of the house\n"
    assert capsys.readouterr().err == said
