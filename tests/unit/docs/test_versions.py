"""The version stands in five files, and one line of each says the same."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]


def text(name):
    return (ROOT / name).read_text("utf-8")


def test_every_file_that_names_the_version_names_the_same():
    citation = yaml.safe_load(text("CITATION.cff"))
    number, day = re.search(r"^## \[(\d+\.\d+\.\d+)\] - (\S+)$", text("CHANGELOG.md"), re.MULTILINE).groups()
    assert {
        *(tomllib.loads(text(f"{folder}pyproject.toml"))["project"]["version"] for folder in ("", "emulator/")),
        citation["version"],
        re.search(r"version = \{(.*)\}", text("README.md"))[1],
    } == {number}
    assert citation["date-released"].isoformat() == day


def test_readme_and_the_citation_file_name_the_same_papers_title_authors_and_doi():
    citation = yaml.safe_load(text("CITATION.cff"))
    (paper,) = citation["references"]
    authors = " and ".join(f"{author['family-names']}, {author['given-names']}" for author in paper["authors"])
    assert {citation["title"], paper["title"], authors, paper["doi"]} <= set(
        re.findall(r"^  \w+ = \{(.*)\},$", text("README.md"), re.MULTILINE)
    )
