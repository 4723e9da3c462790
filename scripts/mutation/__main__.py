"""Draw random mutations, and find out which ones a test detects.

    python -m scripts.mutation draw SEED TABLE.csv
    python -m scripts.mutation run TABLE.csv [COVERAGE]

`run` tries each row without a verdict in a copy of the checkout. It writes the verdict after each row, so that an
interrupted command continues. It runs the tests that reach the mutated line, if there is a record of them:

    pip install pytest-cov
    python -m pytest -n 2 -m 'not conformance and not slow' --cov=coordinator --cov=functions --cov=infra \
        --cov-context=test --cov-report= tests/unit tests/contracts tests/rounds   # writes .coverage

Without a record, or if all of these tests pass, it runs the test files that name the module. A row of the verdict
`survived` needs a new test, or an argument in the column `equivalent` and a second reader's name behind it.
"""

import csv
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.mutation.mutants import Mutant, mutants_of

ROOT = Path(__file__).parents[2]
COUNTS = {
    "coordinator": 40,
    "functions/algorithms": 25,
    "packages/marless-cluster/marless_cluster": 15,
    "functions/native": 20,
}
"""How many mutations are drawn from each folder."""
COLUMNS = (*Mutant._fields, "verdict", "by", "equivalent")
_LIMIT_S = 400
_MOST_TESTS = 250
_NATIVE = ("tests/unit/native", "tests/unit/engines")
_PYTEST = (sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-m")
_QUICK, _SLOW = "not conformance and not slow", "conformance or slow"


def draw(seed: int, table: Path) -> None:
    """Write the table of mutations that the seed draws from this checkout."""
    rng = random.Random(seed)
    rows = list[Mutant]()
    for folder, count in COUNTS.items():
        files = sorted(path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".c", ".h"))
        candidates = [mutant for path in files for mutant in mutants_of(ROOT, path)]
        rng.shuffle(candidates)
        rows += _compiled(candidates, count)
    _write(table, [mutant._asdict() for mutant in rows])


def _compiled(candidates: list[Mutant], count: int) -> list[Mutant]:
    """Return the first `count` mutants that compile. Mutants in Python always do."""
    mutants = list[Mutant]()
    with TemporaryDirectory() as folder:
        for mutant in candidates:
            if len(mutants) == count:
                break
            path = ROOT / mutant.file
            copy = Path(shutil.copytree(path.parent, Path(folder) / "native", dirs_exist_ok=True)) / path.name
            copy.write_text(mutant.applied(path.read_text("utf-8")) or "", "utf-8")
            command = ["cc", "-fsyntax-only", "-march=x86-64-v3", str(copy.parent / "kernels.c")]
            if path.suffix == ".py" or subprocess.run(command, capture_output=True).returncode == 0:
                mutants.append(mutant)
    return mutants


def run(table: Path, coverage: Path | None) -> None:
    """Try each mutation of the table that has no verdict."""
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    with TemporaryDirectory(prefix="mutation") as folder:
        copy = _copy(Path(folder))
        for number, row in enumerate(rows, 1):
            if row["verdict"]:
                continue
            mutant = Mutant(row["file"], int(row["line"]), int(row["column"]), row["code"], row["before"], row["after"])
            row["verdict"], row["by"] = _verdict(copy, mutant, coverage)
            _write(table, rows)
            print(f"{number}: {row['verdict']} {mutant.file}:{mutant.line} {row['by']}", flush=True)


def _verdict(copy: Path, mutant: Mutant, coverage: Path | None) -> tuple[str, str]:
    """`killed` and the test that fails, `survived`, or `gone` where the line no longer exists."""
    path = copy / mutant.file
    source = path.read_text("utf-8")
    mutated = mutant.applied(source)
    if mutated is None:
        return "gone", ""
    _replace(path, mutated, copy)
    try:
        reaching = _that_reach(mutant, mutant.line_of(source) or 0, coverage) if coverage else []
        for tests, marks in ((reaching, _QUICK), (_that_name(copy, mutant), _QUICK), (_that_sanitize(mutant), _SLOW)):
            if tests and (failure := _failure(copy, tests, marks)):
                return "killed", failure
        return "survived", ""
    finally:
        _replace(path, source, copy)


def _replace(path: Path, source: str, copy: Path) -> None:
    """Write the file, and compile the kernels again if it is one of their sources."""
    path.write_text(source, "utf-8")
    if path.suffix in (".c", ".h"):
        subprocess.run([sys.executable, "-m", "marless.infra.packaging.kernel_build"], cwd=copy, capture_output=True)


def _failure(copy: Path, tests: list[str], marks: str) -> str:
    """The first test that fails, or that runs too long. Empty if all pass."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            [*_PYTEST, marks, *tests],
            cwd=copy,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            timeout=_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return "time limit"
    if done.returncode in (0, 5):  # 5: none of these tests has the marks
        return ""
    failures = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failures[0] if failures else f"exit code {done.returncode}"


def _that_reach(mutant: Mutant, line: int, coverage: Path) -> list[str]:
    """Tests that reach the line, by a record of pytest-cov. It takes a few tests of each file."""
    with sqlite3.connect(coverage) as database:
        rows = database.execute(
            "SELECT context, numbits FROM line_bits JOIN context ON context.id = context_id"
            " JOIN file ON file.id = file_id WHERE path LIKE ? AND context LIKE '%|run'",
            (f"%/{mutant.file}",),
        ).fetchall()
    byte, bit = divmod(line, 8)
    tests = sorted(
        context.removesuffix("|run")
        for context, bits in rows
        if byte < len(bits) and bits[byte] & 1 << bit and "::" in context
    )
    tests.sort(key=lambda test: not test.startswith("tests/unit"))
    return tests[:: max(1, -(-len(tests) // _MOST_TESTS))]


def _that_sanitize(mutant: Mutant) -> list[str]:
    """The tests that call kernels compiled with sanitizers, for a mutation in C."""
    return ["tests/unit/native/test_fuzzed_calls.py"] if mutant.file.endswith((".c", ".h")) else []


def _that_name(copy: Path, mutant: Mutant) -> list[str]:
    """Return test files that name the module, files of its own room first."""
    if mutant.file.endswith((".c", ".h")):
        return [*_NATIVE]
    module, room = mutant.file.removesuffix(".py").replace("/", "."), Path(mutant.file).parts[1]
    files = [path for path in sorted((copy / "tests").rglob("test_*.py")) if module in path.read_text("utf-8")]
    rooms = sorted(str(path.relative_to(copy)) for path in copy.glob(f"tests/unit/{room}*"))
    return [*dict.fromkeys([*(str(path.relative_to(copy)) for path in files), *rooms])]


def _copy(folder: Path) -> Path:
    """A copy of this checkout's files in the folder, its kernels included."""
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, encoding="utf-8", check=True)
    libraries = [str(path.relative_to(ROOT)) for path in (ROOT / "functions/native").glob("kernels-*")]
    for name in [*listing.stdout.splitlines(), *libraries]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def _write(table: Path, rows: list[dict[str, object]] | list[dict[str, str]]) -> None:
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main(command: str, *arguments: str) -> None:
    """Run the command. See the module's text."""
    if command == "draw":
        draw(int(arguments[0]), Path(arguments[1]))
    else:
        run(Path(arguments[0]), Path(arguments[1]) if arguments[1:] else None)


if __name__ == "__main__":
    main(*sys.argv[1:])
