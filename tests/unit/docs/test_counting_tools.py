"""Tools of the checks: sizes and their budgets, names that are participles, and mutations."""

from pathlib import Path

from scripts.mutation.mutants import Mutant, mutants_of
from scripts.participles import ROOT, Name, is_participle, names, pronouns, worst
from scripts.sizes import __main__ as sizes
from scripts.sizes import budgets


def test_each_part_has_the_sum_of_its_files(tmp_path):
    (one := tmp_path / "one.py").write_text("import os\n\n\ndef f():\n    return os\n")
    (two := tmp_path / "two.py").write_text("x = 1; y = 2\n")
    assert sizes.size_of(one) == (1, 5, 3) and sizes.size_of(one).plus(sizes.size_of(two)) == (2, 6, 5)


def test_links_and_tests_are_outside_the_house():
    assert {path.parts[0] for path in sizes.tracked("*.py")} >= {*sizes.HOUSE, "tests"}
    assert not any((sizes.ROOT / path).is_symlink() for path in sizes.tracked("marless"))
    assert sizes.is_test(Path("packages/x/tests/test_x.py")) and not sizes.is_test(Path("marless/testing/x.py"))


def test_words_of_generated_parts_do_not_count():
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


def test_names_count_once_in_their_scope(tmp_path):
    path = tmp_path / "run.py"
    path.write_text(SOURCE)
    assert sorted((name.scope, name.text) for name in names(path)) == [
        *(("Run", text) for text in ("bytes_sent", "kept", "saved")),
        *(("Run.kept", text) for text in ("count", "found", "given", "kwargs", "made", "named", "seen", "told")),
        ("Run.kept.lambda", "own"),
    ]


def test_a_bare_participle_is_one_word():
    words = ("found", "_stored", "unfinished", "stored_bytes", "seed", "red")
    assert [word for word in words if is_participle(word)] == ["found", "_stored", "unfinished"]


def test_the_worst_words_are_refused_as_names():
    bound = [Name(ROOT / "scripts" / "a.py", 1, "f", text) for text in ("found", "_seen", "saved", "count")]
    assert [name.text for name in worst(bound)] == ["found", "_seen"]


def test_pronouns_count_except_operands_and_stored_fields():
    bound = [
        *(Name(ROOT / "scripts" / "a.py", 1, "f", text) for text in ("each", "_there", "each_row", "other", "count")),
        Name(ROOT / "scripts" / "a.py", 1, "Sum.__add__", "other"),
        Name(ROOT / "scripts" / "a.py", 1, "Failed", "again"),
    ]
    assert [name.text for name in pronouns(bound)] == ["each", "_there", "other"]


def _mutants(folder: Path, name: str, source: str) -> set[tuple[str, str]]:
    (folder / name).write_text(source)
    return {(mutant.before, mutant.after) for mutant in mutants_of(folder, folder / name)}


def test_every_operator_number_and_call_is_mutated(tmp_path):
    mutants = _mutants(tmp_path, "file.py", "if a < 2.5 and b:\n    call(*c)\n")
    assert mutants == {("<", "<="), ("2.5", "5.0"), ("and", "or"), ("if", "if not"), ("call(*c)", "pass")}


def test_comments_strings_and_pointers_of_c_stay(tmp_path):
    mutants = _mutants(tmp_path, "file.c", 'float *p = a * 1e-08; // 1\nchar q[] = "3 < 4"; /* 5 */ x += 1.5f;\n')
    assert mutants == {("*", "/"), ("+=", "-="), ("1.5f", "3.0f")}


def test_mutant_finds_its_line_after_earlier_lines_moved():
    mutant = Mutant("file.py", 1, 4, "x = a + b", "a", "c")
    assert mutant.applied("y\n  x = a + b\n") == "y\n  x = c + b\n"
    assert mutant.applied("x = a - b\n") is None
