"""All generated pages, by file."""

from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.entities import page as entities
from benchmarks.records import zoo_page
from scripts.reference import (
    algorithms,
    commands,
    configuration,
    environments,
    gpu,
    installing,
    mappo,
    peers,
    prices,
    resources,
    returns,
    rules,
    speaking_agents,
    suite,
    tenants,
    waiting_rounds,
)
from scripts.stubs import api_page, settings_stub

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
PAGES: dict[Path, Callable[[], str]] = {
    REFERENCE / "algorithms.md": algorithms.page,
    api_page.PAGE: api_page.page,
    REFERENCE / "commands.md": commands.page,
    REFERENCE / "configuration.md": configuration.page,
    REFERENCE / "environments.md": environments.page,
    REFERENCE / "prices.md": prices.page,
    REFERENCE / "rules.md": rules.page,
    REFERENCE / "zoo.md": zoo_page.page,
    settings_stub.PAGE: settings_stub.page,
    gpu.PAGE: gpu.page,
    installing.PAGE: installing.page,
    ROOT / "docs" / "explanation" / "mappo.md": mappo.page,
    ROOT / "docs" / "results" / "suite.md": suite.page,
    returns.PAGE: returns.page,
    waiting_rounds.PAGE: waiting_rounds.page,
    speaking_agents.PAGE: speaking_agents.page,
    resources.PAGE: resources.page,
    tenants.PAGE: tenants.page,
    **entities.PAGES,
    **peers.PAGES,
}


def outdated() -> Iterator[tuple[Path, str]]:
    """The path of every page that differs from its file, with the generated text."""
    for path, page in PAGES.items():
        text = page()
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            yield path, text
