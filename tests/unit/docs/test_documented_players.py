"""The guide shows the programs that `marless export` writes."""

from pathlib import Path

import pytest

from marless.exports.policy_files import FORMATS

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("format_", FORMATS)
def test_the_guide_shows_the_player(format_):
    player = (ROOT / f"marless/exports/players/play_{format_}.py").read_text(encoding="utf-8")
    guide = (ROOT / "docs/how-to/export.md").read_text(encoding="utf-8")
    assert f"```python\n{player}```" in guide
