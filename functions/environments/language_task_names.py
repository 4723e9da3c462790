"""Language tasks by name: built-in ones, and any package's as ``text:package.module:make``."""

import difflib

BUILT_IN = ("text/check", "text/dictate", "text/haggle", "text/relay")
"""Each is a module of `marless_language.tasks` with a function `make`."""
ALGORITHM = "grpo"
"""It learns them."""
FAMILY, OWN = "text/", "text:"
EXAMPLE = f"{OWN}package.module:make"


def is_language_task(name: str) -> bool:
    """Return True for a built-in task, or the prefix of another package's tasks. The maker checks the rest."""
    return name in BUILT_IN or name.startswith(OWN)


def unknown_task(name: str) -> str:
    """Return the hint for an unknown name: the nearest name, or all names."""
    nearest = difflib.get_close_matches(name, BUILT_IN, n=1, cutoff=0.5)
    hint = f"did you mean {nearest[0]}?" if nearest else f"there are {', '.join(BUILT_IN)} and {EXAMPLE}"
    return f"no language task is called {name}; {hint}"
