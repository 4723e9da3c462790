"""The version is written in several files, and all say the same."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]


def text(name):
    return (ROOT / name).read_text("utf-8")


def test_all_files_name_the_same_version():
    citation = yaml.safe_load(text("CITATION.cff"))
    number, day = re.search(r"^## \[(\d+\.\d+\.\d+)\] - (\S+)$", text("CHANGELOG.md"), re.MULTILINE).groups()
    packages = list(ROOT.glob("packages/*/pyproject.toml"))
    assert len(packages) > 1
    projects = [text(path) for path in ("pyproject.toml", *packages)]
    pins = re.findall(r'"marless[\w-]*(?:\[\w+\])?==([^"]+)"', "".join(projects))
    assert len(pins) > 8
    versions = {tomllib.loads(project)["project"]["version"] for project in projects}
    assert {*versions, *pins, citation["version"]} == {number}
    assert citation["date-released"].isoformat() == day


def test_readme_names_the_paper_of_the_citation_file():
    (paper,) = yaml.safe_load(text("CITATION.cff"))["references"]
    assert f"*{paper['title']}* ([SoCC '25](https://doi.org/{paper['doi']}))" in text("README.md")
