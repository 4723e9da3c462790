"""Arms of runs that differ in their task's settings, and of the settings that a study lists by name."""

from pathlib import Path

import made_runs
import pytest
from made_runs import a_run, a_study, made

from marless.comparison import score_tables as table
from marless.comparison.arms_of_runs import arms_of
from marless.comparison.comparison import compare
from marless.comparison.comparison_files import marl_eval
from marless.comparison.run_selection import collect
from marless.coordinator.errors import UserError

BONUS, AGENTS = "task.options.bonus={}", "task.agents={}"
SPREAD, TOY = "task.name=mpe/simple_spread", "task.name=toy/signal"


def arms(*names, by=()):
    found, left_out = made_runs.arms(*names, by=by)
    assert not left_out
    return found


def test_other_evaluation_settings_make_other_named_tasks():
    held_out, algorithms = "evaluation.options.bonus=2", ["algorithm.lr=0.1", "algorithm.lr=0.2"]
    only = arms(*grid([held_out], algorithms))
    assert {task for tasks in only.values() for task in tasks} == {"toy/signal-bonus=2"}
    both = compare(arms_of(collect(grid([held_out, "evaluation.options.bonus=3"])).runs)[0], "steps")
    assert both.unlike == ("evaluation.options.bonus",) and both.tasks == ("toy/signal",)


def grid(*settings_of_axes):
    """A run with each of two seeds for every combination."""
    names, settings = [""], [()]
    for axis in settings_of_axes:
        names = [f"{name}{index}" for name in names for index in range(len(axis))]
        settings = [(*before, text) for before in settings for text in axis]
    return [made(f"{n}-{seed}", *s, seed=seed) for n, s in zip(names, settings, strict=True) for seed in (1, 2)]


OPTIONS = [BONUS.format(0), BONUS.format(0.5)]


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (OPTIONS, ["bonus=0", "bonus=0.5"]),
        ([BONUS.format(1), BONUS.format("1.0"), BONUS.format("true")], ["bonus=1", "bonus=1.0", "bonus=true"]),
        (["checkpoint_every=25", BONUS.format(0.5)], ["bonus=default", "bonus=0.5"]),
        (["task.last_action=false", "task.last_action=true"], ["last_action=false", "last_action=true"]),
        (
            ["task.options.joint_actions=false", "task.options.joint_actions=true"],
            ["joint_actions=false", "joint_actions=true"],
        ),
        (["evaluation.episodes=8", "evaluation.episodes=9"], ["episodes=8", "episodes=9"]),
        # Values that look alike are still two.
        ([BONUS.format("1"), BONUS.format('"1"')], ["bonus=1", "bonus=1 (2)"]),
    ],
)
def test_settings_of_a_task_are_arms(values, names):
    assert arms(*grid(values)) == {name: {"toy/signal": [1, 2]} for name in names}


def test_a_secret_among_the_options_is_not_shown():
    found = arms(*grid(['task.options.api_key="aaa"', 'task.options.api_key="bbb"']))
    assert list(found) == ["api_key=<task.options.api_key>", "api_key=<task.options.api_key> (2)"]


def test_options_and_algorithms_are_crossed():
    found = arms(*grid(["algorithm.name=ippo", "algorithm.name=iql"], OPTIONS))
    assert list(found) == ["ippo, bonus=0", "ippo, bonus=0.5", "iql, bonus=0", "iql, bonus=0.5"]


def test_by_algorithm_options_are_tasks_that_say_which():
    names = grid(["algorithm.name=ippo", "algorithm.name=iql"], OPTIONS)
    tasks = {"toy/signal-bonus=0": [1, 2], "toy/signal-bonus=0.5": [1, 2]}
    assert arms(*names, by=["algorithm.name"]) == {"ippo": tasks, "iql": tasks}


@pytest.mark.parametrize("key", ["task.options.bonus", "task.options", "task"])
def test_by_takes_any_task_key_or_table(key):
    assert list(arms(*grid(OPTIONS), by=[key])) == ["bonus=0", "bonus=0.5"]


def test_options_that_vary_together_split_no_task():
    both = ["{task}.bonus=0 {task}.cost=0", "{task}.bonus=1 {task}.cost=9"]
    names = [
        made(f"{index}-{seed}", *text.format(task="task.options").split(), seed=seed)
        for index, text in enumerate(both)
        for seed in (1, 2)
    ]
    for by in ((), ["task.options.bonus"], ["task.options.cost"]):
        assert [list(own) for own in arms(*names, by=by).values()] == [["toy/signal"], ["toy/signal"]]


def test_agent_numbers_are_tasks_and_arms_on_request():
    names = grid([SPREAD], [AGENTS.format(3), AGENTS.format(4)])
    assert arms(*names) == {"mappo": {"mpe/simple_spread-3": [1, 2], "mpe/simple_spread-4": [1, 2]}}
    assert arms(*names, by=["task.agents"]) == {
        "agents=3": {"mpe/simple_spread": [1, 2]},
        "agents=4": {"mpe/simple_spread": [1, 2]},
    }


def test_environments_are_arms_where_asked():
    found = arms(*grid([TOY, SPREAD]), by=["task.name"])
    assert found == {
        "name=toy/signal": {"toy/signal and mpe/simple_spread": [1, 2]},
        "name=mpe/simple_spread": {"toy/signal and mpe/simple_spread": [1, 2]},
    }


@pytest.mark.parametrize(
    ("axes", "by", "says"),
    [
        ([OPTIONS], ["algorithm.name"], "differ in task.options.bonus; for an arm of each, compare by task.options"),
        ([[SPREAD], [AGENTS.format(3), AGENTS.format(4)]], [], "settings differ in task.agents; for an arm of each,"),
        ([[SPREAD, TOY]], [], "settings differ in task.name; for an arm of each, compare by task.name"),
        ([[TOY]], [], "all runs have the same settings but for the seed"),
    ],
)
def test_one_arm_says_that_nothing_was_compared(axes, by, says):
    found, left_out = arms_of(collect(grid(*axes)).runs, by)
    comparison = compare(found, "steps")
    (line,) = table.conclusions(comparison)
    assert line.startswith("one arm: nothing to compare; ") and says in line
    assert f"* {line}" in table.markdown(comparison, left_out, [])


def test_study_settings_are_arms_in_listed_order():
    a_study("studies/mine", {"plain": ["task.options.bonus=0"], "base": ["task.options.bonus=0.5"]}, seeds=(2, 10))
    assert arms("mine") == {"plain": {"toy/signal": [2, 10]}, "base": {"toy/signal": [2, 10]}}
    # Runs by name are in the order of the arguments.
    runs = [f"studies/mine/runs/{name}" for name in ("base-s2", "base-s10", "plain-s2")]
    found, _ = arms_of(collect(runs).runs)
    assert [arm.name for arm in found] == ["base", "plain"]
    assert found[0].settings == {"task.options.bonus": "0.5"}
    assert list(arms("mine", by=["task.options.bonus"])) == ["bonus=0", "bonus=0.5"]


@pytest.mark.parametrize(
    "settings",
    [
        {"few": [SPREAD, AGENTS.format(3)], "many": [SPREAD, AGENTS.format(4)]},
        {"one": [TOY], "other": [SPREAD]},
        {"mine": [TOY], "yours": [TOY]},
        {"all": [TOY, "algorithm.name=ippo", "task.options.x=1"], "none": [TOY]},
    ],
)
def test_whatever_listed_settings_differ_in_they_are_arms(settings):
    a_study("studies/mine", settings)
    assert list(arms("mine")) == list(settings)


def test_repeated_arms_are_compared_over_tasks():
    both = {f"{a}-{t[10:13]}": [f"algorithm.name={a}", t] for a in ("mappo", "ippo") for t in (TOY, SPREAD)}
    a_study("studies/mine", both)
    tasks = {"mpe/simple_spread": [1, 2], "toy/signal": [1, 2]}
    assert arms("mine") == {"mappo": tasks, "ippo": tasks}


def test_equal_settings_of_two_studies_are_one_arm():
    a_study("studies/one", {"plain": [BONUS.format(0)], "paid": [BONUS.format(1)]})
    a_study("studies/two", {"plain": [BONUS.format(0)], "paid": [BONUS.format(2)]}, seeds=(3,))
    found = arms("one", "two")
    assert {name: own["toy/signal"] for name, own in found.items()} == {
        "plain": [1, 2, 3],
        "one/paid": [1, 2],
        "two/paid": [3],
    }


def test_study_and_other_runs_are_distinguished_by_keys():
    a_study("studies/one", {"plain": [BONUS.format(0)], "paid": [BONUS.format(1)]})
    assert list(arms("one", made("more", BONUS.format(2)))) == ["bonus=0", "bonus=1", "bonus=2"]


def test_unreadable_study_file_costs_only_names():
    a_study("studies/one", {"plain": [BONUS.format(0)], "paid": [BONUS.format(1)]})
    for name in ("study.json", "decisions.jsonl"):
        Path("studies/one", name).write_bytes(b"\xff\xfe{[")
    assert sorted(arms("one")) == ["bonus=0", "bonus=1"]


def test_limits_that_were_raised_make_no_other_setting():
    a_study("studies/one", {"plain": [BONUS.format(0)], "paid": [BONUS.format(1)]}, seeds=(1,))
    a_run(Path("studies/one/runs/plain-s2"), seed=2, settings=[BONUS.format(0), "stop.rounds=900"])
    assert arms("one")["plain"] == {"toy/signal": [1, 2]}


def test_arms_with_other_options_have_other_reward_scales():
    names = [made(name, BONUS.format(value), win=(0.2, 0.4)) for name, value in (("a", 0), ("b", 1))]
    said = table.conclusions(compare(arms_of(collect(names).runs)[0], "steps"))
    assert said[-1] == (
        "arms differ in task.options.bonus: if that changes what is paid, returns are on different reward scales;"
        " compare a metric of the environment (win)"
    )
    names = [made(name, f"algorithm.name={name}", win=(0.2, 0.4)) for name in ("mappo", "iql")]
    assert len(table.conclusions(compare(arms_of(collect(names).runs)[0], "steps"))) == 1
    names = [made(name, f"task.last_action={name}") for name in ("true", "false")]
    assert len(table.conclusions(compare(arms_of(collect(names).runs)[0], "steps"))) == 1


def test_metric_is_compared_in_place_of_return():
    made("a", BONUS.format(0), returns=(1, 2), absolute=5, win=(0.2, 0.4))
    made("b", BONUS.format(1), returns=(11, 12), absolute=15, win=(0.1, 0.3))
    found, _ = arms_of(collect(["a", "b"], "win").runs)
    comparison = compare(found, "steps", "win")
    assert [row.iqm.value for row in comparison.equal] == [0.4, 0.3]
    assert [row.iqm.value for row in comparison.absolute] == [0.4, 0.3]
    assert comparison.curve.y["bonus=1"][0] == 0.1
    titles = [section.title for section in table.sections(comparison)]
    assert titles[:2] == ["win at equal steps", "win at equal steps, against bonus=0"]
    assert table.headline(comparison).startswith("win of 2 arms over 1 seed on toy/signal, at 200 environment steps")
    # Both are in the export.
    assert set(marl_eval(found)["toy"]["signal"]) == {"bonus=0", "bonus=1"}
    assert not any("reward scale" in line for line in table.conclusions(comparison))


def test_runs_without_metric_are_omitted_and_named():
    made("a", win=(0.2, 0.4)), made("b", seed=2)
    assert collect(["a", "b"], "win").left_out == {"b": "no metric win; it has return"}
    with pytest.raises(
        UserError, match="--metric wim: no run that has ended has it: no metric wim; it has return, win"
    ):
        collect(["a"], "wim")
