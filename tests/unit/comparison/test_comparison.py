"""Comparisons of runs against figures worked out by hand, and the written files."""

import csv
import json
from pathlib import Path

import pytest
from made_runs import a_run

from marless.comparison import comparison_files
from marless.comparison import score_tables as table
from marless.comparison.arms_of_runs import arms_of
from marless.comparison.comparison import compare, curves
from marless.comparison.run_selection import collect
from marless.coordinator.errors import UserError

IPPO = ("algorithm.name=ippo",)
MPE = ("task.name=mpe/simple_spread",)


def compared(axis="steps"):
    names = sorted((path.name for path in Path("runs").iterdir()), reverse=True)
    arms, _ = arms_of(collect(names).runs)
    return compare(arms, axis), arms


def values(rows):
    return {row.arm: row.iqm.value for row in rows}


def interquartile(numbers):
    ordered, cut = sorted(numbers), len(numbers) // 4
    kept = ordered[cut : len(ordered) - cut]
    return sum(kept) / len(kept)


def test_returns_are_those_where_the_shortest_run_ends():
    # Evaluations every 100 steps, each after a second and a cent. For ippo they cost two cents and come every 150
    # steps.
    a_run(Path("runs/mappo"), returns=(10, 20, 30, 40))
    a_run(Path("runs/ippo"), returns=(10, 50), settings=IPPO, every=150, dollars=0.02)
    steps, _ = compared("steps")
    assert (steps.at, steps.ends_first) == (300, "ippo")
    assert values(steps.equal) == {"mappo": 30, "ippo": 50}
    seconds, _ = compared("seconds")
    assert (seconds.at, seconds.ends_first) == (2, "ippo")
    assert values(seconds.equal) == {"mappo": 20, "ippo": 50}
    dollars, _ = compared("dollars")
    assert (dollars.at, dollars.ends_first) == (0.04, "")
    assert values(dollars.equal) == {"mappo": 40, "ippo": 50}
    assert steps.equal[1].against.difference.value == 20


def test_between_evaluations_returns_are_interpolated():
    a_run(Path("runs/mappo"), returns=(10, 20))
    a_run(Path("runs/ippo"), returns=(50,), settings=IPPO, every=130)
    found, _ = compared()
    assert values(found.equal) == {"mappo": pytest.approx(13), "ippo": 50}
    assert (found.curve.x, found.curve.y["ippo"]) == ((130,), (50,))


def test_run_shorter_than_first_evaluation_is_not_comparable():
    a_run(Path("runs/mappo"), returns=(10,), every=100)
    a_run(Path("runs/ippo"), returns=(50,), settings=IPPO, every=130)
    with pytest.raises(UserError, match="mappo ends at 100 steps, before the first evaluation of ippo at 130: there"):
        compared()


def test_curve_is_interquartile_mean_at_every_point():
    tables = {1: (0, 8), 2: (2, 10), 3: (4, 12), 4: (60, 70), 5: (-50, -60)}
    for seed, returns in tables.items():
        a_run(Path(f"runs/mappo-{seed}"), seed=seed, returns=returns)
    found, _ = compared()
    # Of five seeds floor(5 / 4) = 1 falls away at each end.
    assert found.curve.y["mappo"][0] == pytest.approx(2) and found.curve.y["mappo"][-1] == pytest.approx(10)
    assert found.equal[0].mean.value == pytest.approx(8) and found.equal[0].median.value == 10
    assert found.equal[0].against is None and found.equal[0].optimality_gap is None


def test_task_scores_are_normalised_by_all_compared_runs():
    # On toy: returns from 0 to 20, the 20 being an absolute metric. On mpe: from -100 to -50.
    a_run(Path("runs/mappo-toy"), returns=(0, 10), absolute=20)
    a_run(Path("runs/ippo-toy"), returns=(5, 15), absolute=15, settings=IPPO)
    a_run(Path("runs/mappo-mpe"), returns=(-100, -50), absolute=-50, settings=MPE)
    a_run(Path("runs/ippo-mpe"), returns=(-90, -75), absolute=-60, settings=(*IPPO, *MPE))
    found, _ = compared()
    assert found.normalised and found.tasks == ("mpe/simple_spread", "toy/signal")
    assert values(found.equal) == {"mappo": pytest.approx((0.5 + 1) / 2), "ippo": pytest.approx((0.75 + 0.5) / 2)}
    assert values(found.absolute) == {"mappo": pytest.approx(1), "ippo": pytest.approx((0.75 + 0.8) / 2)}
    assert found.equal[1].optimality_gap.value == pytest.approx(1 - 0.625)
    # ippo is better on toy, mappo on mpe.
    assert found.equal[1].against.improvement.value == 0.5
    assert "optimality gap" in table.sections(found)[0].header


def test_a_task_on_which_nothing_differs_scores_nothing():
    for name, settings in (("mappo", ()), ("ippo", IPPO)):
        a_run(Path(f"runs/{name}-toy"), returns=(3, 3), absolute=3, settings=settings)
        a_run(Path(f"runs/{name}-mpe"), returns=(1, 2), absolute=2, settings=(*settings, *MPE))
    assert values(compared()[0].equal) == {"mappo": 0.5, "ippo": 0.5}


def test_stopped_run_counts_partially_without_absolute_metric():
    a_run(Path("runs/mappo"), returns=(10, 20, 30))
    a_run(Path("runs/ippo"), returns=(50, 60), absolute=None, status="stopped", settings=IPPO)
    found, arms = compared()
    assert (found.at, values(found.equal)) == (200, {"mappo": 20, "ippo": 60})
    assert (found.absolute, found.without_absolute) == (None, ("ippo",))
    assert any("runs that were stopped early have none (ippo)" in note for note in table.notes(found))
    assert "Absolute metric" not in table.markdown(found, {}, []).split("How to read")[0]
    assert comparison_files.marl_eval(arms)["toy"]["signal"]["ippo"]["seed_1"]["absolute_metrics"] == {"return": []}


def test_few_seeds_are_flagged_and_said():
    for seed in range(1, 4):
        a_run(Path(f"runs/mappo-{seed}"), seed=seed, returns=(10 * seed,))
        a_run(Path(f"runs/ippo-{seed}"), seed=seed, returns=(10 * seed + (1, -1, 2)[seed - 1],), settings=IPPO)
    found, _ = compared()
    assert table.conclusions(found) == ["ippo against mappo: cannot tell with 3 seeds"]
    assert table.sections(found)[0].rows[0][1] == "3 *"
    # Next to the asterisk, and nowhere else.
    returns, against, *_ = table.sections(found)
    assert returns.text.endswith(
        "\n* below 6 seeds the intervals are too narrow; Gorsane et al. (2022) ask for 10 seeds"
    )
    assert any(paragraph.startswith(r"\* below 6 seeds") for paragraph in returns.markdown)
    assert "*" not in against.text and not any("*" in note for note in table.notes(found))
    assert any("paired by seed" in note for note in table.notes(found))


def test_numbers_are_recomputable_from_merged_file(pictures):
    returns = {"mappo": [3, -4, 12, 7, 9, 30], "ippo": [8, 14, 13, 2, 40, 11]}
    for name, settings in (("mappo", ()), ("ippo", IPPO)):
        for seed, value in enumerate(returns[name], 1):
            a_run(Path(f"runs/{name}-{seed}"), seed=seed, returns=(0, value), absolute=value + 1, settings=settings)
    for folder in ("first", "second"):
        found, arms = compared()
        comparison_files.write(Path(folder), found, arms, {"x": "failed"})
    for file in Path("first").iterdir():
        assert file.read_bytes() == Path("second", file.name).read_bytes()
    runs = json.loads(Path("first/marl-eval.json").read_text())["toy"]["signal"]
    rows = list(csv.DictReader(Path("first/compare.csv").read_text().splitlines()))
    for arm, seeds in runs.items():
        last = [run["step_1"] for run in seeds.values()]
        assert [entry["step_count"] for entry in last] == [200] * 6
        means = [sum(entry["return"]) / len(entry["return"]) for entry in last]
        best = [sum(run["absolute_metrics"]["return"]) for run in seeds.values()]
        for measure, numbers in (("equal", means), ("absolute", best)):
            (row,) = (r for r in rows if (r["table"], r["arm"], r["statistic"]) == (measure, arm, "iqm"))
            assert float(row["value"]) == pytest.approx(interquartile(numbers)) and row["seeds"] == "6"
    (row,) = (r for r in rows if (r["table"], r["statistic"]) == ("equal", "probability of improvement"))
    wins = sum((a > b) + (a == b) / 2 for a in returns["ippo"] for b in returns["mappo"])
    assert float(row["value"]) == pytest.approx(wins / 36)
    assert "* x: failed" in Path("first/compare.md").read_text()


def test_arm_curve_ends_with_its_shortest_run():
    a_run(Path("runs/short"), returns=(1.0, 2.0))
    a_run(Path("runs/long"), returns=(1.0, 2.0, 3.0, 7.0), settings=IPPO)
    a_run(Path("runs/long-2"), seed=2, returns=(1.0, 2.0, 5.0), settings=IPPO)
    arms, _ = arms_of(collect(["short", "long", "long-2"]).runs)
    found = curves(arms, "steps")
    # Evaluations every 100 steps: the first arm ends after 200, the second where long-2 does, at 3 and 5.
    assert [(own.x[0], own.x[-1]) for own in found.values()] == [(100.0, 200.0), (100.0, 300.0)]
    assert [own.y[name][-1] for name, own in found.items()] == [2.0, 4.0]
