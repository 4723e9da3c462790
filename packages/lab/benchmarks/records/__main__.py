"""``python -m benchmarks.records check|write [PAGE ...]``: compare pages of results with stored records.

`check` prints each number without a source or with another digit than its record, and ends with 1 if there is one.
`write` puts the digits of the records into the pages. Without names of pages it reads all pages.
"""

import argparse
import sys
from pathlib import Path

import msgspec

from benchmarks.records.page import Page
from benchmarks.records.queries import Records
from benchmarks.records.sources import Sources
from scripts.reference.pages import PAGES

ROOT = Path(__file__).resolve().parents[4]
SOURCES = Path(__file__).parent / "pages"
PATTERNS = ("README.md", "docs/results/*.md", "docs/how-to/*.md", "packages/*/docs/*.md")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.records", description=__doc__)
    parser.add_argument("command", choices=("check", "write"))
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE", help="such as docs/results/speed.md")
    options = parser.parse_args()
    every = [path for name in PATTERNS for path in sorted(ROOT.glob(name))]
    paths = [path.resolve() for path in options.pages] or every
    if missing := [path for path in paths if not path.is_file()]:
        parser.error(f"there is no page {missing[0]}")
    records = Records(ROOT)
    checked = [checked_page(path, records) for path in paths]
    if options.command == "write":
        for page in checked:
            page.path.write_text(page.rewritten(), encoding="utf-8")
        return
    faults = [fault for page in checked for fault in page.faults]
    print(*faults, f"{len(paths)} pages, {len(faults)} faults", sep="\n")
    sys.exit(bool(faults))


def checked_page(path: Path, records: Records) -> Page:
    """Return the page, compared with its sources."""
    # For example results_lag.toml for docs/results/lag.md, and README.toml for README.md.
    words = path.relative_to(ROOT).with_suffix("").parts
    page, file = Page(path, records), SOURCES / f"{'_'.join(words[-2:])}.toml"
    try:
        sources = msgspec.toml.decode(file.read_bytes(), type=Sources) if file.exists() else Sources()
    except msgspec.DecodeError as error:
        raise SystemExit(f"{file.relative_to(ROOT)}: {error}") from error
    page.check(sources)
    if path in PAGES and PAGES[path]() != page.text:
        page.faults.append(f"{page.name}: `make docs` writes another page from the records; run it")
    return page


if __name__ == "__main__":
    main()
