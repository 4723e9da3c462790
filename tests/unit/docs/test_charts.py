"""The charts of README.md, and the sentences around them, agree with the stored records."""

from pathlib import Path

import pytest

from scripts.charts import prices, returns

ROOT = Path(__file__).parents[3]


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_pages_have_the_price_and_each_return_of_records():
    cents = 100 * prices()["functions, a learner per slot"]
    assert f"about {cents:.1f} cents" in page("docs/results/dollars.md")
    for row in returns():
        assert f"| {row.mean:.1f} ({row.low:.1f} to {row.high:.1f}) |" in page("docs/results/returns.md")


def test_charts_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    from scripts.charts import draw_returns, draw_speed_and_dollars

    draw_returns(tmp_path / "returns.png")
    draw_speed_and_dollars(tmp_path / "speed.png")
    for name in ("returns.png", "speed.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
