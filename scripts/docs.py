"""Write the generated pages of docs/: ``python -m scripts.docs``.

The pages are committed. A test compares them with this program's output.
"""

import sys

from scripts.reference.pages import outdated


def main() -> int:
    """Writes every outdated page and prints its path."""
    for path, text in outdated():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
