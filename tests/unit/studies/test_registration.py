"""The registration of study files: changes of the hash, tables that name it, and the shipped hold-outs."""

import json
import tomllib
from pathlib import Path

import msgspec
import pytest
from studies import EVERYTHING, setting, study

from marless.ablation import rules_file
from marless.ablation.ablate import plan
from marless.ablation.arms import arms_by_name
from marless.coordinator.config.loading import load
from marless.coordinator.config.nested_tables import flatten
from marless.coordinator.config.renamed_keys import renamed
from marless.coordinator.config.schema import ConfigError
from marless.studies import study_file
from marless.studies.registration import refuse_hold_outs, remark
from marless.studies.seeds import seeds_of
from marless.studies.study import Study

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
SUITE, HOLD_OUTS = BENCHMARKS / "suite.toml", BENCHMARKS / "hold_outs.toml"
# Later versions may change the defaults of these tables. Arms add their own keys.
PINNED = (
    "algorithm.",
    "actors.",
    "trend.",
    "sharing.",
    "scaling.",
    "placement.",
    "pipeline.",
    "evaluation.",
    "pricing.",
)
STUDY = """
seeds = "1-3"
[base]
stop.rounds = 4
algorithm.lr = 1e-3
[vary]
algorithm.gamma = [0.9, 0.99]
actors.num_envs = [4, 8]
"""
SAME_STUDY = """
# Other words, another order, other pools and seeds as a list.
pool.workers = 3
dollars = 2.0
owner = "anna"
seeds = [1, 2, 3]
vary = { actors.num_envs = [4, 8], algorithm.gamma = [0.9, 0.99] }
base.algorithm = { lr = 0.001 }
base.stop.rounds = 4
"""


def study_of(text):
    return study_file.parse(tomllib.loads(text), "a.toml", Path())


def test_comments_and_order_change_no_registration():
    assert study_of(STUDY).registration == study_of(SAME_STUDY).registration


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"1-3"', '"1-4"'),
        ("rounds = 4", "rounds = 5"),
        ("1e-3", "2e-3"),
        ("[0.9, 0.99]", "[0.99, 0.9]"),
        ("[vary]", "halving.rungs = [20]\n[vary]"),
        ("[base]", 'hold_outs = ["mpe/simple_push"]\n[base]'),
    ],
)
def test_settings_seeds_and_rungs_change_study_registration(old, new):
    changed = STUDY.replace(old, new, 1)
    if new.startswith("halving"):
        changed = new.split("\n")[0] + STUDY
    assert changed != STUDY and study_of(changed).registration != study_of(STUDY).registration


def suite_of(document):
    return rules_file.parse(document, Path("changed.toml"))


def test_old_study_keys_stay_in_file():
    file = study_of("base.scaling.rollouts = 9\nvary.actors.rollouts = [2]")
    (run,) = Study(Path("nowhere"), file, [1]).ask()
    assert (run.config.actors.rollouts, file.base) == (2, {"scaling": {"rollouts": 9}})


def test_key_order_changes_no_suite_registration():
    backwards = dict(reversed(tomllib.loads(SUITE.read_text(encoding="utf-8")).items()))
    for task in backwards["tasks"]:
        task["values"] = {"actors": backwards["base"]["actors"], **task["values"]}
    assert suite_of(backwards).registration == rules_file.load(SUITE).registration


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("target = 0.9", "target = 0.8"),
        ('seeds = "1-10"', 'seeds = "1-9"'),
        (":reach", ":return"),
        ("random = -79.4", "random = -79.3"),
        ("values.opponents.side = 0", ""),
        ('"none+constant:2@split", ', ""),
        ('network = "mlp"', 'network = "attention"'),
    ],
)
def test_suite_contents_change_its_registration(old, new):
    text = SUITE.read_text(encoding="utf-8")
    changed = suite_of(tomllib.loads(text.replace(old, new, 1)))
    assert old in text and changed.registration != rules_file.load(SUITE).registration


def test_command_with_other_settings_is_not_covered():
    suite = rules_file.load(SUITE)
    few = msgspec.structs.replace(suite, rules=suite.rules[:2], seeds=[1, 2])
    assert suite.covers(few, []) and not suite.covers(few, ["stop.rounds=1"])
    for change in ({"seeds": [100]}, {"rules": [*few.rules, "ours"]}, {"headlines": suite.headlines[:1]}):
        assert not suite.covers(msgspec.structs.replace(few, **change), [])


def test_shipped_suite_writes_down_every_changeable_default():
    suite = rules_file.load(SUITE)
    for task in suite.tasks:
        written = flatten(renamed(rules_file.document(suite, task)))
        config = flatten(msgspec.to_builtins(rules_file.configuration(suite, task, ())))
        for arm in arms_by_name([*suite.rules, *task.rules]):
            # The number of agents decides `algorithm.lr`. Other settings of None are off.
            defaults = {key for key, value in config.items() if value is not None or key == "algorithm.lr"}
            missing = {key for key in defaults if key.startswith(PINNED)} - written.keys() - arm.settings.keys()
            # Rounds between evaluations do not count where steps do.
            assert missing <= {"evaluation.every"}, (task.name, arm.name)
        assert written["evaluation.every_steps"]


def test_the_registered_seeds_are_below_those_of_tuning():
    assert seeds_of(rules_file.load(SUITE).seeds) == list(range(1, 11))
    assert seeds_of(study_file.load(HOLD_OUTS).seeds) == list(range(1, 11))


def test_suite_names_six_hold_outs_without_using_them():
    held, suite = study_file.load(HOLD_OUTS), rules_file.load(SUITE)
    tasks = [one.values["task"]["name"] for one in held.setting]
    assert tasks == held.hold_outs == suite.hold_outs and len(tasks) == 6
    assert not {rules_file.configuration(suite, task, ()).task.name for task in suite.tasks} & {*tasks}


def test_hold_out_is_refused_only_on_tuning_seeds():
    refuse_hold_outs(["a/b"], ["a/b"], [1, 99], "x.toml")
    refuse_hold_outs(["a/b"], ["a/c"], [100], "x.toml")
    with pytest.raises(ConfigError, match=r"x\.toml: a/b is a hold-out, and seed 100 is for choosing settings"):
        refuse_hold_outs(["a/b"], ["a/c", "a/b"], [1, 100], "x.toml")


def test_tuning_on_hold_out_is_refused_in_line(marless, tmp_path):
    Path("holds.toml").write_text(HOLD_OUTS.read_text(encoding="utf-8").replace('"1-10"', '"100-101"'))
    said = marless("study", "holds.toml")
    assert (said.code, len(said.err)) == (2, 1) and "mpe/simple_world_comm is a hold-out, and seed 100" in said.err[0]
    text = SUITE.read_text(encoding="utf-8").replace('"mpe/simple_push"', '"mpe/simple_spread"')
    Path("suite.toml").write_text(text.replace('"1-10"', '"100"'))
    said = marless("study", "suite.toml")
    assert (said.code, len(said.err)) == (2, 1) and "suite.toml: mpe/simple_spread is a hold-out" in said.err[0]


def test_runs_of_changed_file_keep_registration(marless, tmp_path):
    signal = setting("signal", EVERYTHING["ippo-signal"])
    study(tmp_path / "one.toml", signal, head='seeds = "1"\n')
    before = study_file.load(Path("one.toml")).registration
    said = marless("study", "one.toml")
    assert f"All runs have the registration {before[:12]}." in said.out
    study(tmp_path / "one.toml", signal, head='seeds = "1-2"\n')
    now = study_file.load(Path("one.toml")).registration
    said = marless("study", "one.toml")
    assert [line for line in said.out if "registration" in line] == [remark({before: 1, now: 1}, now)]
    folder = Path("studies/one/runs")
    runs = [json.loads((folder / f"signal-s{seed}" / "summary.json").read_text())["registration"] for seed in (1, 2)]
    assert runs == [before, now] and before != now
    said = marless("compare", "one")
    assert any(f"1 with {before[:12]}, 1 with {now[:12]}" in line for line in " ".join(said.out).split("."))


def an_ablation(**changed):
    fields = {"base": load(None, ["stop.rounds=4"]), "arms": arms_by_name(["packed", "ours"]), "seeds": [1, 2]}
    return plan(**(fields | changed))


def test_ablation_without_suite_has_hash_of_declaration(tmp_path):
    registration = an_ablation().registration
    assert len(registration) == 64
    # Another folder, another order of keys and the seed of the run's file change nothing.
    assert an_ablation(folder=tmp_path).registration == registration
    (tmp_path / "a.toml").write_text("seed = 9  # not used\n[stop]\nrounds = 4\n")
    assert an_ablation(base=load(tmp_path / "a.toml", [])).registration == registration
    # The suite's file decides, where there is one.
    assert an_ablation(registration="").registration == ""


@pytest.mark.parametrize(
    "changed",
    [
        {"base": load(None, ["stop.rounds=5"])},
        {"arms": arms_by_name(["packed", "marless"])},
        {"arms": arms_by_name(["packed"])},
        {"seeds": [1, 2, 3]},
        {"headlines": ["ours/packed:return"]},
        {"random": -79.4},
    ],
)
def test_ablation_contents_change_its_registration(changed):
    assert an_ablation(**changed).registration != an_ablation().registration


def test_ablation_runs_keep_registration_and_later_seeds(marless):
    settings = ("task.name=toy/signal", "actors.num_envs=4", "stop.rounds=1", "--arms", "packed", "--out", "few")
    assert marless("ablate", *settings, "--seeds", "1").code == 0
    first = json.loads(Path("few/runs/packed-s1/summary.json").read_text())["registration"]
    assert f"All runs have the registration {first[:12]}." in Path("few/table.md").read_text()
    assert marless("ablate", *settings, "--seeds", "1-2").code == 0
    second = json.loads(Path("few/runs/packed-s2/plan.json").read_text())["registration"]
    assert len(first) == 64 and first != second
    assert remark({first: 1, second: 1}, second) in Path("few/table.md").read_text()


def test_a_remark_names_the_runs_of_other_files():
    assert remark({"": 3}, "") == "" and remark({}, "a" * 64) == ""
    assert remark({"a" * 64: 3}, "a" * 64) == f"All runs have the registration {'a' * 12}."
    assert remark({"a" * 64: 3, "b" * 64: 1, "": 2}, "a" * 64) == (
        f"The registration is {'a' * 12}. Of 6 runs, these were made otherwise:"
        f" 1 run under another registration ({'b' * 12}) and 2 runs under none."
    )
