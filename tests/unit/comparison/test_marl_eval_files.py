"""Arms out of files of marl-eval, and the command that compares them."""

import json
from pathlib import Path

import numpy as np
import pytest

from marless.cli.app import main
from marless.comparison.comparison import compare
from marless.comparison.marl_eval import arms_of_files
from marless.coordinator.errors import USER_ERROR, UserError
from marless.reports.provenance import written_by


def a_file(name, task, algorithms):
    """A file of one task: by algorithm and seed the mean returns after 100, 200 ... steps. Absolute is the last."""
    content = {
        algorithm: {
            f"seed_{seed}": {
                **{
                    f"step_{index}": {"step_count": 100 * (1 + index), "return": [mean - 1, mean + 1]}
                    for index, mean in enumerate(means)
                },
                "absolute_metrics": {"return": [means[-1]]},
            }
            for seed, means in seeds.items()
        }
        for algorithm, seeds in algorithms.items()
    }
    path = Path(name)
    path.write_text(json.dumps({"mpe": {task: content}}))
    return path


def two_tasks():
    """`a` and `b` on two tasks, with returns from 0 to 10 and from 0 to 100. `c` has only the first task."""
    first = a_file("first.json", "one", {"a": {1: (0, 4), 2: (0, 6)}, "b": {1: (0, 8), 2: (0, 10)}, "c": {1: (5, 5)}})
    second = a_file("second.json", "two", {"a": {1: (0, 100), 2: (0, 50), 3: (0, 9)}, "b": {1: (0, 20), 2: (0, 30)}})
    return [first, second]


def test_algorithms_of_all_tasks_are_arms():
    arms, left_out = arms_of_files(two_tasks())
    assert {arm.name: arm.seeds for arm in arms} == {"a": (1, 2), "b": (1, 2)}
    assert list(arms[0].runs) == ["mpe/one", "mpe/two"]
    assert left_out == {"c": "it is not on mpe/two", "mpe/two a seed_3": "arm a lacks seed 3 on mpe/one"}


def test_task_without_common_algorithm_is_omitted():
    first, second = two_tasks()
    content = json.loads(first.read_text())
    content["mpe"]["longer"] = {"a-long": content["mpe"]["one"]["a"]}
    first.write_text(json.dumps(content))
    arms, left_out = arms_of_files([first, second])
    assert [list(arm.runs) for arm in arms] == [["mpe/one", "mpe/two"]] * 2
    assert left_out["a-long"] == "it is not on mpe/one"
    with pytest.raises(UserError, match="no algorithm is on all tasks"):
        arms_of_files([first])


def test_task_scores_equal_hand_computation():
    comparison = compare(arms_of_files(two_tasks())[0], "steps")
    a, b = comparison.equal
    # Scores of a: 0.4 and 0.6 on the first task, 1 and 0.5 on the second. Of b: 0.8 and 1, 0.2 and 0.3.
    assert a.mean.value == pytest.approx(0.625) and b.mean.value == pytest.approx(0.575)
    assert a.iqm.value == pytest.approx(0.55) and b.iqm.value == pytest.approx(0.55)
    assert a.optimality_gap.value == pytest.approx(0.375) and b.optimality_gap.value == pytest.approx(0.425)
    # b is higher in all four pairs of the first task and in none of the second.
    assert b.against.improvement.value == 0.5
    assert comparison.costs == ()
    share_above_half = np.interp(0.55, comparison.profile.x, comparison.profile.y["a"])
    assert share_above_half == pytest.approx(0.5, abs=0.05)


def test_command_compares_files_like_runs(capsys):
    files = [str(path) for path in two_tasks()]
    assert main(["compare", *files, "--out", "made"]) == 0
    said = capsys.readouterr()
    assert "2 arms over 2 seeds on mpe/one and mpe/two, at 200 environment steps" in said.out
    assert "Cost" not in said.out
    assert "left out: c (it is not on mpe/two)" in said.err
    merged = json.loads(Path("made/marl-eval.json").read_text())["mpe"]
    assert {task: list(algorithms) for task, algorithms in merged.items()} == {"one": ["a", "b"], "two": ["a", "b"]}
    assert Path("made/compare.md").read_text().endswith(f"\n\n{written_by()}\n")
    # The written file can be compared again.
    assert main(["compare", "made/marl-eval.json", "--out", "again"]) == 0
    tables = [Path(folder, "compare.csv").read_text() for folder in ("made", "again")]
    assert tables[0] == tables[1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["first.json", "runs/latest"], "runs and files of marl-eval cannot be compared"),
        (["first.json", "--at", "dollars"], "neither `by` nor another `at` fits"),
        (["none.json"], "none.json cannot be read"),
        (["broken.json"], "broken.json cannot be read"),
        (["unnamed.json"], "unnamed.json: mpe/one a has 'x' in the place of a seed"),
        (["empty.json"], "empty.json: mpe/one a seed_1 needs evaluations with 'step_count'"),
        (["first.json", "other.json"], "no algorithm is on all tasks of these files (mpe/one, mpe/three)"),
    ],
)
def test_bad_files_are_one_line(arguments, says, capsys):
    two_tasks()
    a_file("other.json", "three", {"d": {1: (0, 1)}})
    Path("broken.json").write_text("{")
    Path("unnamed.json").write_text(json.dumps({"mpe": {"one": {"a": {"x": {"step_0": {"step_count": 1}}}}}}))
    Path("empty.json").write_text(json.dumps({"mpe": {"one": {"a": {"seed_1": {"step_0": {"step_count": 1}}}}}}))
    assert main(["compare", *arguments]) == USER_ERROR
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


def test_algorithm_without_common_task_is_error():
    paths = [a_file("one.json", "one", {"a": {1: (0, 1)}}), a_file("two.json", "two", {"b": {1: (0, 1)}})]
    with pytest.raises(UserError, match="name files that share some"):
        arms_of_files(paths)
