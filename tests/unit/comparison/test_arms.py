"""A comparison chooses runs and groups them into arms."""

from pathlib import Path

import pytest
from made_runs import a_run, arms, made

from marless.comparison.run_selection import collect
from marless.coordinator.errors import UserError


def test_runs_that_differ_in_seed_are_one_arm():
    assert arms(made("a", seed=2), made("b", seed=1)) == ({"mappo": {"toy/signal": [1, 2]}}, {})


def test_arms_are_distinguished_by_differing_keys():
    names = [made(f"{lr}-{seed}", f"algorithm.lr={lr}", seed=seed) for lr in (0.1, 0.2) for seed in (1, 2)]
    assert list(arms(*names)[0]) == ["lr=0.1", "lr=0.2"]
    # A setting of only one run is a key only where it distinguishes arms.
    assert list(arms(*names, made("other", "stop.rounds=9"))[0]) == ["lr=0.1", "lr=0.2", "lr=default"]
    assert list(arms(*names, made("more", "algorithm.lr=0.1", "stop.rounds=9"))[0]) == [
        "lr=0.1, rounds=400",
        "lr=0.2, rounds=400",
        "lr=0.1, rounds=9",
    ]


def test_derived_hyperparameters_are_no_separate_key():
    found = arms(made("a", "algorithm.name=mappo"), made("b", "algorithm.name=iql"), made("c", "algorithm.name=ippo"))
    assert list(found[0]) == ["mappo", "iql", "ippo"]


def test_task_defaults_do_not_distinguish_arms():
    on = {"toy": "task.name=toy/signal", "mpe": "task.name=mpe/simple_spread"}
    names = [
        made(f"{algorithm}-{task}", f"algorithm.name={algorithm}", setting, f"algorithm.lr={lr}")
        for task, setting, lr in (("toy", on["toy"], 0.1), ("mpe", on["mpe"], 0.2))
        for algorithm in ("mappo", "ippo")
    ]
    both = {"mpe/simple_spread": [1], "toy/signal": [1]}
    assert arms(*names)[0] == {"mappo": both, "ippo": both}


def test_by_groups_by_these_keys_alone():
    names = [made("a", "algorithm.lr=0.1", seed=1), made("b", "algorithm.lr=0.2", seed=2)]
    assert arms(*names, by=["algorithm.name"])[0] == {"mappo": {"toy/signal": [1, 2]}}
    assert list(arms(*names, by=["algorithm.name", "algorithm.lr"])[0]) == ["mappo, lr=0.1", "mappo, lr=0.2"]


def test_seed_without_a_task_is_omitted_and_named():
    names = [
        made(f"{task}-{seed}", f"task.agents={task}", "task.name=mpe/simple_spread", seed=seed)
        for task, seed in ((3, 1), (3, 2), (4, 1))
    ]
    found, left_out = arms(*names)
    assert found == {"mappo": {"mpe/simple_spread-3": [1], "mpe/simple_spread-4": [1]}}
    assert left_out == {"3-2": "arm mappo lacks seed 2 on mpe/simple_spread-4"}


@pytest.mark.parametrize(
    ("by", "says"),
    [
        (["algorithm.lx"], "--by algorithm.lx: no run has this key in its configuration; did you mean algorithm.lr?"),
        (["seed"], "--by seed: arms are compared over the same seeds"),
        (["algorithm.name"], "arm mappo has seed 1 twice, in a and b; they differ in algorithm.lr, which `by` could"),
    ],
)
def test_what_cannot_be_grouped_is_one_line(by, says):
    names = [made("a", "algorithm.lr=0.1"), made("b", "algorithm.lr=0.2")]
    with pytest.raises(UserError, match=says.replace("?", r"\?")):
        arms(*names, by=by)


def test_repeated_run_is_one_and_conflicting_seed_refused():
    made("a"), made("b")
    assert arms("a", "a", "runs/a")[0] == {"mappo": {"toy/signal": [1]}}
    with pytest.raises(UserError, match="arm mappo has seed 1 twice, in a and b; leave one of them out"):
        arms("a", "b")


def test_runs_of_other_tasks_have_nothing_in_common():
    names = [made("a", "algorithm.name=ippo"), made("b", "task.name=mpe/simple_spread")]
    with pytest.raises(UserError, match="b trains mpe/simple_spread with mappo and a trains toy/signal with ippo"):
        arms(*names)
    # The same algorithm on two tasks is one arm.
    assert arms(made("c"), "b")[0] == {"mappo": {"mpe/simple_spread": [1], "toy/signal": [1]}}


def test_arms_of_different_tasks_are_refused():
    names = [made("a", "algorithm.name=ippo"), made("b", "task.name=mpe/simple_spread")]
    with pytest.raises(UserError, match="different tasks: ippo was trained on toy/signal, mappo on mpe/simple_spread"):
        arms(*names, by=["algorithm.name"])


def test_runs_that_have_not_ended_are_named():
    made("a"), made("b", status="stopped", absolute=None, seed=2)
    for status in ("running", "interrupted", "failed"):
        made(status, status=status, seed=3)
    made("old", seed=9)
    Path("runs/old/summary.json").unlink()
    found = collect(["a", "b", "running", "interrupted", "failed", "old"])
    assert [run.name for run in found.runs] == ["a", "b"]
    assert found.left_out == {
        "running": "running",
        "interrupted": "interrupted",
        "failed": "failed",
        "old": "unfinished",
    }
    with pytest.raises(UserError, match=r"no run to compare has come to an end \(failed: failed\)"):
        collect(["failed"])


@pytest.mark.parametrize("root", ["studies", "ablations", "."])
def test_a_folder_of_runs_stands_for_them(root):
    for name in ("x-2", "x-1"):
        a_run(Path(root) / "mine" / "runs" / name, seed=int(name[-1]))
    Path(root, "mine", "runs", "half").mkdir()
    assert [Path(run.name).name for run in collect(["mine"]).runs] == ["x-1", "x-2"]
    assert len(collect([str(Path(root) / "mine")]).runs) == 2


def test_what_is_not_there_is_one_line():
    with pytest.raises(UserError, match="there is no run, study or ablation nobody; "):
        collect(["nobody"])
    Path("empty/runs").mkdir(parents=True)
    with pytest.raises(UserError, match="empty/runs holds no runs"):
        collect(["empty"])
    made("a")
    Path("runs/a/evaluations.json").write_text("{")
    with pytest.raises(UserError, match=r"evaluations\.json cannot be read"):
        collect(["a"])
