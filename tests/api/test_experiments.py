"""Studies, ablations and comparisons from Python."""

import json

import pytest

import marless

RATES = {"algorithm": {"lr": [1e-3, 3e-3]}}


def test_study_continues_and_its_settings_are_compared(small, home):
    file = {"seeds": [1], "base": small, "vary": RATES}
    begun = marless.study(file, out="rates", workers=2, quiet=True)
    assert [(run.name, run.status) for run in begun.runs] == [("lr-0.001-s1", "finished"), ("lr-0.003-s1", "finished")]
    longer = marless.study({**file, "seeds": [1, 2]}, out="rates", workers=2, quiet=True)
    by_name = {run.name: run for run in longer.runs}
    assert len(by_name) == 4 and longer.dollars == sum(run.dollars for run in longer.runs)
    assert by_name["lr-0.001-s1"].dollars == begun.runs[0].dollars
    assert repr(longer).startswith("<StudyResult: rates, 4 runs: 4 finished, $0.0")
    assert "lr-0.003</td>" in longer._repr_html_()
    compared = marless.compare("rates", out="tables")
    assert repr(compared).startswith("<RunComparison: 2 arms over 2 seeds on mpe/simple_spread, at ")
    page = compared._repr_html_()
    assert "<li>lr=0.003 against lr=0.001: cannot tell with 2 seeds</li>" in page and "lr=0.003</td>" in page
    assert [(row.arm, row.seeds) for row in compared.comparison.equal] == [("lr=0.001", 2), ("lr=0.003", 2)]
    assert [record["arm"] for record in compared.records] == ["lr=0.001", "lr=0.003"]
    assert [record["name"] for record in longer.records] == list(by_name) and len(longer.plot().axes) == 4
    assert compared.plot().axes[0].get_xlabel() == "environment steps" and len(repr(compared.comparison)) < 1_000
    assert compared.left_out == {} and (home / "tables" / "compare.md").is_file()
    pair = marless.compare(*(marless.open_run(f"rates/runs/lr-{lr}-s1") for lr in (0.001, 0.003))).comparison
    # One seed per arm gives no interval and so no difference.
    assert (pair.equal[1].against.difference.ci95, pair.equal[1].against.verdict) == (None, "cannot tell")


def test_a_benchmark_compares_algorithms(small):
    same = {"rounds": 2, "quiet": True, **{key: small[key] for key in ("actors", "evaluation")}}
    result = marless.benchmark(["toy/signal"], ["iql", marless.IPPO(epochs=1)], seeds=2, **same)
    assert [(row.arm, row.seeds) for row in result.comparison.equal] == [("iql", 2), ("ippo", 2)]


@pytest.mark.slow
def test_an_ablation_compares_its_arms_with_the_first(small, home):
    settings = {**small, "task": {"name": "toy/signal"}}
    result = marless.ablate(settings, arms=["marless-minus", "packed"], seeds=[3], out="few", workers=2, quiet=True)
    assert {name: list(runs) for name, runs in result.runs.items()} == {"marless-minus": [3], "packed": [3]}
    packed = result.comparison.comparisons[1]
    # Placement changes no weight but the bill.
    assert packed.differences["final"].value == 0
    assert packed.ratios["dollars"].value == result.runs["packed"][3].dollars / result.runs["marless-minus"][3].dollars
    assert json.loads((home / "few" / "table.json").read_text())["baseline"] == "marless-minus"
    assert (result.failures, result.ending.code) == ({}, 0)
    assert repr(result) == "<AblationResult: few, 2 arms, 2 finished runs>"
    assert "<p>Return and cost</p>" in result._repr_html_() and "packed</td>" in result._repr_html_()


def test_invalid_training_or_comparison_is_one_line(small, home):
    with pytest.raises(marless.UserError, match="needs its folder, such as out="):
        marless.study({"vary": RATES})
    with pytest.raises(marless.UserError, match=r"there is no study rates; give its file, such as rates\.toml"):
        marless.study("rates")
    with pytest.raises(marless.ConfigError, match="the study: there is no varies here"):
        marless.study({"varies": RATES}, out="rates")
    with pytest.raises(marless.ConfigError, match=r"the study compares rules: .* marless\.ablate\(base, arms=rules\)"):
        marless.study({"rules": ["packed"]}, out="rates")
    with pytest.raises(marless.ConfigError, match="there is no arm called 'mine'"):
        marless.ablate(small, arms=["mine"])
    with pytest.raises(marless.ConfigError, match=r"placement\.rule=fused clashes with the arm packed"):
        marless.ablate(small, arms=["packed"], placement={"rule": "fused"})
    with pytest.raises(marless.UserError, match="there is no run, study or ablation nowhere"):
        marless.compare("nowhere")
    with pytest.raises(marless.UserError, match=r"penalty-iql ends at 4 .* evaluation of toy-signal-iql at 20; give"):
        marless.benchmark(["toy/signal", "matrix/penalty"], ["iql"], actors={"num_envs": 2}, rounds=2)
    assert list(home.iterdir()) == []
    with pytest.raises(marless.UserError, match=r"all runs failed\. ippo-s1: .* nothing shows that it makes an"):
        marless.benchmark([lambda: 7], ["ippo"], seeds=1, quiet=True)
