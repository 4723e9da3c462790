"""Modules that a configuration names, which are looked for and read, and not imported: that would run them."""

import ast
import difflib
import hashlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path

# By these a module can get names that its source does not show.
_DYNAMIC = {"__getattr__", "__dict__", "eval", "exec", "globals", "locals", "modules", "setattr", "vars", "*"}


def find_module(path: str) -> ModuleSpec | None:
    """Return the location of the module ``package.module``, or None."""
    name, *parts = path.split(".")
    spec = None
    with suppress(ValueError):  # a module that was not imported from anywhere
        spec = find_spec(name)
    # Workers look in the current folder too, after everything else.
    spec = spec or PathFinder.find_spec(name, [str(Path.cwd())])
    for part in parts:
        if spec is None:
            break
        # By its last name, because a folder without `__init__.py` would look for its parent among imported modules.
        spec = PathFinder.find_spec(part, [*(spec.submodule_search_locations or ())])
    return spec


def code_of(path: str) -> str | None:
    """Return name and hash of the top-level package or module of ``package.module:name``. None for '' and for our
    modules, which are in the hash of the program."""
    if (name := path.partition(":")[0].partition(".")[0]) in ("", "marless"):
        return None
    if (spec := find_module(name)) is None:
        return name
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    if not folders and spec.origin is not None:
        return f"{name} {hash_of_files(Path(spec.origin).parent, [Path(spec.origin)])[:12]}"
    code = [[path for path in sorted(folder.rglob("*")) if path.suffix in (".py", ".so", ".pyd")] for folder in folders]
    digests = map(hash_of_files, folders, code)
    return " ".join([name, *(digest[:12] for digest in digests)])


def function_fault(path: str) -> str:
    """Return the reason why ``package.module:name`` is no function. '' if it is, or only an import can tell."""
    module, _, name = path.partition(":")
    package = module.partition(".")[0]
    if find_module(package) is None:
        return f"there is no module {package!r}; install it, or run from where it lies"
    if (spec := find_module(module)) is None:
        return f"there is no module {module!r}"
    if not (spec.origin or "").endswith(".py"):
        return ""
    try:
        tree = ast.parse(Path(str(spec.origin)).read_bytes())
    except (OSError, SyntaxError, ValueError) as error:
        return f"{spec.origin} cannot be read: {' '.join(str(error).split())}"
    names = {*_bound(tree)}
    if name in names or _DYNAMIC & {*_words(tree)}:
        return ""
    nearest = difflib.get_close_matches(name, names, n=1)
    return f"there is no {name!r} in {spec.origin}" + (f"; did you mean {nearest[0]!r}?" if nearest else "")


def hash_of_files(root: Path, files: Iterable[Path]) -> str:
    """The SHA-256 of files and their names below `root`."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(root)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _bound(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield child.name
            yield from (name for each in ast.walk(child) if isinstance(each, ast.Global) for name in each.names)
        elif isinstance(child, ast.alias):
            yield child.asname or child.name.partition(".")[0]
        elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            yield child.id
        else:
            yield from _bound(child)


def _words(tree: ast.AST) -> Iterator[str]:
    words = (getattr(node, field, None) for node in ast.walk(tree) for field in ("name", "id", "attr"))
    return (word for word in words if isinstance(word, str))
