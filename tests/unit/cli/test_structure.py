"""The source tree: folders of limited size, and no circular imports."""

import ast
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

from scripts.sizes import __main__ as sizes

ROOT = Path(__file__).parents[3]
# Folders of modules, by the package that they are of.
PACKAGES = {
    "marless.functions": ROOT / "functions",
    "marless.coordinator": ROOT / "coordinator",
    "marless.infra": ROOT / "infra",
    "marless": ROOT / "marless",
    **{folder.name: folder for folder in ROOT.glob("packages/*/*_*")},
}
MOST = 20
# These files patch places that no parameter reaches: a fault within a library or in the middle of a command.
MOST_PATCHED = 40


def modules():
    return {
        ".".join((package, *path.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__"): path
        for package, folder in PACKAGES.items()
        for path in folder.rglob("*.py")
    }


def imports(path, known):
    """The product's modules that a file imports, also inside functions and under TYPE_CHECKING."""
    found = set()
    for node in sizes.statements_of(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            below = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else node.module for name in below}
    return found & known


def test_no_folder_holds_more_than_twenty_python_files():
    folders = ("functions", "coordinator", "infra", "marless", "packages", "examples", "scripts", "tests")
    counts = Counter(path.parent for folder in folders for path in (ROOT / folder).rglob("*.py"))
    assert {str(folder): count for folder, count in counts.items() if count > MOST} == {}


def test_imports_have_no_circles_lazy_ones_included():
    known = modules()
    # A package may import its own submodules for its public names, because submodules import siblings.
    graph = {name: imports(path, known.keys()) - {name} for name, path in known.items()}
    TopologicalSorter(graph).prepare()  # raises `CycleError` for a circle


def test_few_test_files_patch():
    """If code moves, a patch of its old name silently tests nothing."""
    tests = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "packages").rglob("tests/**/*.py")]
    patches = [path for path in tests if path != Path(__file__) and "monkeypatch" in path.read_text("utf-8").lower()]
    assert len(patches) <= MOST_PATCHED, sorted(map(str, patches))
