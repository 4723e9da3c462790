"""Evaluations of another task than the one that is trained, and with sampled actions."""

import json
from pathlib import Path

from marless.page.run_card import card
from marless.runs.folder import RunFolder
from marless.runs.run_files import curve_title

SHORT, LONG = "task.options.horizon=5", "evaluation.options.horizon=9"


def test_only_evaluations_have_the_options_whatever_the_placement(train):
    toy = ("task.name=toy/signal", SHORT, "evaluation.episodes=32")
    usual, longer = train(*toy), train(*toy, LONG)
    assert [line.return_mean for line in longer.lines] == [line.return_mean for line in usual.lines]
    # The same policies on the same start states: episodes are alike up to step 5, and no later step costs anything.
    pairs = [
        (one, other)
        for before, after in zip(usual.lines, longer.lines, strict=True)
        if before.evaluation
        for one, other in zip(before.evaluation.returns, after.evaluation.returns, strict=True)
    ]
    assert pairs and all(one <= other for one, other in pairs) and any(one < other for one, other in pairs)
    elsewhere = train(*toy, LONG, "placement.rule=whole", "evaluation.episodes_per_invocation=3")
    assert elsewhere.sha256 == longer.sha256 == usual.sha256
    assert train(*toy, LONG, workers=2).state.final == longer.state.final


def test_evaluate_repeats_stated_evaluation_unless_told_otherwise(marless):
    said = marless.train("part", SHORT, LONG)
    assert sum("(greedy, horizon=9)" in line for line in said.out) == 1  # the evaluation after round 2
    assert "greedy, horizon=9, 4 episodes" in " ".join(" ".join(said.out).split())
    assert curve_title((folder := RunFolder(Path("runs/part"))).config()).endswith("; evaluated with horizon=9")
    assert "4 episodes, greedy, horizon=9" in str(card(folder))
    marless("report", "part", "--out", "part.html")
    page = Path("part.html").read_text()
    assert "evaluation (greedy, horizon=9)" in page and "evaluation (greedy)" not in page

    def evaluated(*settings):
        return json.loads(marless("evaluate", "part", *settings, "--episodes", "64", "--json", "--workers", "1").out[0])

    own, explicit, short = evaluated(), evaluated("task.options.horizon=9"), evaluated(SHORT)
    assert own.pop("settings") == explicit.pop("settings") == ["task.options.horizon=9"]
    assert short["settings"] == [SHORT]
    assert own == explicit and own["mean"] > short["mean"]
    assert evaluated("evaluation.greedy=false")["mean"] != own["mean"]
    assert marless("resume", "part", "stop.rounds=6", "--workers", "1").code == 0


def test_sampled_actions_differ_where_untrained_policies_repeat_one(train):
    game = ("task.name=matrix/climbing", "algorithm.lr=1e-12", "evaluation.final_episodes=64")
    greedy, sampled = (train(*game, f"evaluation.greedy={value}").state.final for value in ("true", "false"))
    assert len(set(greedy)) == 1 < len(set(sampled))
