"""The page of a run: its statements about a journal made by hand. It is one well-formed file that loads nothing."""

import json
import re
from html.parser import HTMLParser

import msgspec
import pytest
from ablated_runs import evaluated
from reported_runs import a_folder, a_line

from marless.coordinator.file_reading import UnreadableFile
from marless.page.chart import ChartLine
from marless.page.document import run_page
from marless.page.facts import read
from marless.page.run_charts import bundle

_VOID = {"meta", "img", "input"}
# Ends of an evaluation's interval by Student's t with one degree of freedom: 3 ± 12.706 for returns of 2 and 4.
FINAL = {"mean": -57.5, "iqm": -56.0, "ci95": [-58.25, -56.75], "episodes": 3200}


class Checked(HTMLParser):
    """Collects unclosed elements, the text, and the addresses that the page would load."""

    def __init__(self, page):
        super().__init__()
        self.open, self.faults, self.text, self.loads, self.ids, self.targets = [], [], [], [], [], []
        self.feed(page)
        self.close()
        self.faults += self.open

    def handle_starttag(self, tag, attributes):
        if tag not in _VOID:
            self.open.append(tag)
        for name, value in attributes:
            if name in ("src", "href", "srcset", "data", "action", "poster"):
                (self.targets if value.startswith("#") else self.loads).append(value)
            elif name == "id":
                self.ids.append(value)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)

    def handle_data(self, data):
        self.text.append(data)


def three_rounds(**used):
    return [a_line(1), a_line(2, evaluation=evaluated(1, 2.0, 4.0)), a_line(3, **used)]


def page_of(folder):
    return run_page(read(folder), "Written by a test.")


def text_of(page):
    return " ".join(" ".join(Checked(page).text).split())


def test_a_page_is_well_formed_and_loads_nothing(tmp_path):
    folder = a_folder(tmp_path / "r", three_rounds(), replay=b"GIF89a", bill=[("s3 puts", 0.25)])
    page = page_of(folder)
    found = Checked(page)
    assert found.faults == []
    assert found.loads == ["data:image/gif;base64,R0lGODlh"]
    assert not re.search(r"https?://|@import|url\(", page)
    assert {target[1:] for target in found.targets} <= {*found.ids}
    assert len(found.ids) == len({*found.ids})


def test_figures_of_journal_are_on_page(tmp_path):
    summary = {"final_return": FINAL, "weights_sha256": "f00d"}
    folder = a_folder(tmp_path / "r", three_rounds(), seed=7, summary=summary, bill=[("s3 puts", 0.3), ("logs", 0.1)])
    text = text_of(page_of(folder))
    # 3 rounds of 100 steps, 2 seconds and $0.1.
    interval, speed = "-57.5 -58.2 to -56.8 (95 %)", "6.0 s 50 steps/s"
    for figure in (interval, "3,200 episodes, greedy", "300 3 rounds", speed, "$0.30"):
        assert figure in text
    # 0.3 of 0.4 dollars.
    assert "s3 puts 3 request $0.1 $0.30 75.0 %" in text
    assert "begun 2026-01-02T03:04:05+00:00" in text
    assert "SHA-256 of the weights f00d" in text
    assert "marless train seed=7 task.name=toy/signal" in text


def test_evaluation_is_drawn_at_cost_of_its_policies(tmp_path):
    page = page_of(a_folder(tmp_path / "r", three_rounds()))
    # After round 1: 100 steps, 2 seconds, $0.1. The mean of 2 and 4 with Student's t: 3 ± 12.7.
    for place in ("100 steps", "2 s", "$0.10"):
        assert f"evaluation (greedy), {place}: 3.0 (-9.7 to 15.7)</title>" in page


def test_unfinished_run_shows_its_last_evaluation(tmp_path):
    folder = a_folder(tmp_path / "r", three_rounds())
    (folder.path / "summary.json").unlink()
    assert "3.0 ± 12.7 after round 1, no final evaluation yet" in text_of(page_of(folder))


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("summary.json", lambda found: found["dollars"].pop("learner")),
        ("summary.json", lambda found: found["dollars"].update(actor=0.01)),
        ("bill.json", lambda found: found["lines"].pop()),
    ],
    ids=["an amount is missing", "an amount was edited", "a line is missing"],
)
def test_amounts_that_mismatch_their_total_are_damage(tmp_path, name, edit):
    folder = a_folder(tmp_path / "r", three_rounds(), bill=[("s3 puts", 0.2), ("s3 gets", 0.1)])
    read(folder)
    document = json.loads((folder.path / name).read_text())
    edit(document)
    (folder.path / name).write_text(json.dumps(document))
    with pytest.raises(UnreadableFile, match=rf"{name}.*dollars add up to .*, and its total is 0\.3"):
        read(folder)


def test_always_zero_metric_has_no_chart(tmp_path):
    metrics = {"policy/clip_fraction/g00": 0.0, "policy/advantage_spread/g00": 0.25}
    page = page_of(a_folder(tmp_path / "r", [a_line(number, metrics=metrics) for number in (1, 2)]))
    assert "Clip fraction" not in page and "<b>Spread of advantages</b>" in page


def test_environment_metric_ends_with_final_evaluation(tmp_path):
    first = msgspec.structs.replace(evaluated(1, 2.0, 4.0), env_metrics={"won": 0.25})
    lines = [a_line(1, env_metrics={"won": 0.125}), a_line(2, evaluation=first)]
    end = {"final_return": FINAL, "final_env_metrics": {"won": 0.75}}
    page = page_of(a_folder(tmp_path / "r", lines, summary=end))
    chart = re.search(r"<b>won</b>.*?</figure>", page).group()
    # After the steps of rounds 1 and 2.
    assert re.findall(r"<title>(evaluation[^<]*steps[^<]*)</title>", chart) == [
        "evaluation (greedy), 100 steps: 0.250",
        "evaluation (greedy), 200 steps: 0.750",
    ]


def test_grouped_agent_has_own_or_group_metric(tmp_path):
    metrics = {"policy/entropy/g00": 0.5, "policy/entropy_a01/g00": 0.75}
    folder = a_folder(
        tmp_path / "r", [a_line(1, team=(0, 0), metrics=metrics), a_line(2, team=(0, 0), metrics=metrics)]
    )
    names = re.search(r"<b>Entropy</b>.*?</figure>", page_of(folder)).group()
    assert re.findall(r'data-name="(.*?)"', names) == ["agent 0", "agent 1"]
    # From 0.5 to 0.75 with 5 % of 0.25 on either side.
    assert 'data-range="0 200 0.4875 0.7625"' in names


def test_agents_with_the_same_values_are_one_line(tmp_path):
    page = page_of(a_folder(tmp_path / "r", three_rounds()))
    returns = re.search(r"<b>Returns by agent</b>.*?</figure>", page).group()
    assert re.findall(r'data-name="(.*?)"', returns) == ["agent 0, agent 1"]


def test_many_lines_are_their_median_in_a_band():
    lines = [ChartLine(f"a{number}", [0, 1], [float(number), 10.0 * number]) for number in range(11)]
    (found,) = bundle(lines)
    assert (found.y, found.low, found.high) == ([5.0, 50.0], [0.0, 0.0], [10.0, 100.0])


def test_ratings_are_shown_where_there_is_a_league(tmp_path):
    plain = page_of(a_folder(tmp_path / "plain", three_rounds()))
    assert "Elo" not in Checked(plain).text
    league = page_of(a_folder(tmp_path / "league", three_rounds(metrics={"league/elo/fox": 1210.0})))
    assert "<title>fox</title>" in league
    assert "Elo" in Checked(league).text


def test_names_and_settings_are_escaped(tmp_path):
    setting = 'task.options.text="<script>alert(1)</script>"'
    page = page_of(a_folder(tmp_path / "<script>alert(2)<", three_rounds(), settings=[setting]))
    assert Checked(page).faults == []
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "&lt;script&gt;alert(2)&lt;" in page


def test_secrets_are_not_on_the_page(tmp_path, shell):
    shell.export(MY_SERVICE_TOKEN="hunter2hunter2")
    settings = ['task.options.of_variable="hunter2hunter2"', 'task.options.api_key="of-the-key"']
    page = page_of(a_folder(tmp_path / "r", three_rounds(), settings=settings))
    assert "hunter2hunter2" not in page
    assert "of-the-key" not in page
    assert "&lt;MY_SERVICE_TOKEN&gt;" in page
    assert "&lt;task.options.api_key&gt;" in page


def test_settings_that_differ_from_the_defaults_come_first(tmp_path):
    page = page_of(a_folder(tmp_path / "r", three_rounds(), settings=["actors.num_envs=3"]))
    rows = re.findall(r"<tr><td><code>([\w.]+)</code></td>", page)
    first = rows.index("actors.num_envs")
    assert {*rows[: first + 1]} <= {"task.name", "actors.num_envs"}
    assert rows.index("algorithm.gamma") > first


@pytest.mark.parametrize("event", ["shared", "rejected"])
def test_decisions_are_told(tmp_path, event):
    text = text_of(page_of(a_folder(tmp_path / "r", three_rounds(event=event, trial_episodes=1200))))
    assert {"shared": "Round 3: sharing switched on", "rejected": "tried on 1,200 episodes"}[event] in text
