"""`marless report`: the page of a trained run, of many, and that mistakes are one line."""

import json
import re
import shlex
from html import unescape
from html.parser import HTMLParser

import pytest
from ablated_runs import evaluated
from reported_runs import a_folder, a_line

from marless.page import document

METRICS = ("policy/entropy", "policy/kl", "policy/clip_fraction", "postprocess/explained_variance")


class Balance(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.open = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "img", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def a_study(path, rounds, agents, arms=("0.001", "0.01"), seeds=2):
    """Runs of as many settings and seeds, with an evaluation every tenth round. Arms differ by their return."""
    for position, lr in enumerate(arms):
        for seed in range(1, seeds + 1):
            lines = [
                a_line(
                    round_,
                    agents,
                    evaluated(round_ - 1, position - 1.0, position + 1.0 + 0.4 * seed) if round_ % 10 == 1 else None,
                    metrics={
                        f"{metric}/g{agent:02d}": 0.123456789 * (round_ * (agent + 3) * seed % 17)
                        for metric in METRICS
                        for agent in range(agents)
                    },
                )
                for round_ in range(1, rounds + 1)
            ]
            a_folder(path / f"lr-{lr}-s{seed}", lines, seed, [f"algorithm.lr={lr}"], replay=b"x" * 50_000)


def test_latest_run_becomes_page_with_figures_and_command(marless, tmp_path):
    marless.train("a", "seed=3")
    said = marless("report")
    assert (said.code, said.out) == (0, ["report.html"])
    page = (tmp_path / "report.html").read_text()
    assert Balance(page).open == []
    assert "<h1>a</h1>" in page
    assert "agent_0" in page  # the name of the agent, from the run's policies
    again = shlex.split(unescape(re.search(r"<pre>(marless train .*?)</pre>", page)[1]))
    assert marless(*again[1:], "--run", "b", "--workers", "1").code == 0
    weights = [json.loads((tmp_path / f"runs/{run}/summary.json").read_text())["weights_sha256"] for run in "ab"]
    assert weights[0] == weights[1]
    assert weights[0] in page


def test_same_run_gives_same_page_bytes(marless, tmp_path):
    marless.train("a")
    marless("report", "a", "--out", "one.html")
    marless("report", "runs/a", "--out", "two.html")
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_runs_beyond_page_limit_are_counted(marless, tmp_path, monkeypatch):
    monkeypatch.setattr(document, "BUDGET", 250_000)
    a_study(tmp_path / "studies/s/runs", 21, 2)  # each with a replay of 67,000 characters
    marless("report", "s", "--out", "s.html")
    page = (tmp_path / "s.html").read_text()
    sections = page.count('<details class="run">')
    assert 0 < sections < 4
    assert int(re.search(r"(\d+) runs? without a section, for the page to stay small", page)[1]) == 4 - sections


def test_study_is_compared_and_its_runs_have_sections(marless, tmp_path):
    a_study(tmp_path / "studies/s/runs", 21, 2)
    said = marless("report", "s", "--out", "s.html")
    assert (said.code, said.out) == (0, ["s.html"])
    page = (tmp_path / "s.html").read_text()
    assert Balance(page).open == []
    assert "<h1>2 arms, 4 runs</h1>" in page
    # Returns of the last evaluations are 0.2 and 0.4, and 1 above that for the other arm.
    assert "0.30 (0.20 to 0.40)" in page
    assert "+1.00 (+1.00 to +1.00)" in page
    assert "lr=0.01 against lr=0.001: cannot tell with 2 seeds" in page
    assert page.count('<details class="run">') == 4
    for position in (1, 2, 3, 4):
        assert f'<a href="#run-{position}">' in page
        assert page.count(f'id="run-{position}"') == 1


def test_unfinished_run_is_named_next_to_others(marless, tmp_path):
    a_study(tmp_path / "studies/s/runs", 21, 2)
    a_folder(tmp_path / "studies/s/runs/late", [a_line(1)], summary={"status": "running"})
    marless("report", "s", "--out", "s.html")
    page = (tmp_path / "s.html").read_text()
    assert "studies/s/runs/late: running" in page
    assert page.count('<details class="run">') == 4


@pytest.mark.slow
def test_page_of_32_runs_is_below_5_megabytes(marless, tmp_path):
    a_study(tmp_path / "studies/s/runs", 130, 8, ("0.001", "0.002", "0.003", "0.004"), 8)
    assert marless("report", "s", "--out", "s.html").code == 0
    page = (tmp_path / "s.html").read_text()
    sections = page.count('<details class="run">')
    assert len(page.encode()) < 5_000_000
    assert sections == 32


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["nobody"], "there is no run, study or ablation nobody"),
        (["a", "nobody"], "there is no run, study or ablation nobody"),
        (["a", "--out", "nowhere/report.html"], "--out nowhere/report.html: there is no folder nowhere"),
        (["a", "--out", "runs"], "--out runs: it is a folder"),
        (["a", "--out", "/proc/report.html"], "--out /proc/report.html cannot be written"),
        (["new"], "new has no finished round; see marless status new"),
        ([], "there is no latest run in runs of this folder; the newest run is new: name it"),
    ],
)
def test_a_mistake_is_one_line(marless, tmp_path, argv, said):
    a_folder(tmp_path / "runs/a", [a_line(1)])
    a_folder(tmp_path / "runs/new", [a_line(1)])
    (tmp_path / "runs/new/metrics.jsonl").write_text("")
    found = marless("report", *argv)
    assert (found.code, found.out, len(found.err)) == (2, [], 1)
    assert said in found.err[0]
