"""The tool that draws mutations of the code."""

from pathlib import Path

from scripts.mutation.mutants import Mutant, mutants_of


def _mutants(folder: Path, name: str, source: str) -> set[tuple[str, str]]:
    (folder / name).write_text(source)
    return {(mutant.before, mutant.after) for mutant in mutants_of(folder, folder / name)}


def test_every_operator_number_and_call_of_a_statement_is_mutated(tmp_path):
    mutants = _mutants(tmp_path, "file.py", "if a < 2.5 and b:\n    call(*c)\n")

    assert mutants == {("<", "<="), ("2.5", "5.0"), ("and", "or"), ("if", "if not"), ("call(*c)", "pass")}


def test_comments_strings_and_pointers_of_c_stay(tmp_path):
    mutants = _mutants(tmp_path, "file.c", 'float *p = a * 1e-08; // 1\nchar q[] = "3 < 4"; /* 5 */ x += 1.5f;\n')

    assert mutants == {("*", "/"), ("+=", "-="), ("1.5f", "3.0f")}


def test_a_mutant_finds_its_line_after_lines_before_it_have_moved():
    mutant = Mutant("file.py", 1, 4, "x = a + b", "a", "c")

    assert mutant.applied("y\n  x = a + b\n") == "y\n  x = c + b\n"
    assert mutant.applied("x = a - b\n") is None
