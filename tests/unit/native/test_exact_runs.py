"""Exact runs are equal on every type of processor, and make demands on workers."""

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from built_kernels import needs_kernels
from msgspec import to_builtins
from msgspec.structs import replace as replace_field
from simulated import make_plan

from marless.backends.badge import badge, driver_badge
from marless.coordinator.config.config_keys import key_types
from marless.coordinator.config.exactness import is_exact
from marless.coordinator.config.loading import load
from marless.coordinator.config.nested_tables import flatten
from marless.coordinator.config.schema import ConfigError, RunConfig
from marless.functions.environments.base import EnvTask
from marless.functions.environments.games.battles import BattleOptions
from marless.functions.environments.games.foraging import ForagingOptions
from marless.functions.environments.games.kitchen import KitchenOptions
from marless.functions.environments.games.warehouse import WarehouseOptions
from marless.functions.environments.registry import make
from marless.functions.environments.task_names import BUILT_IN
from marless.functions.native.kernels import are_built
from marless.functions.nn.native.calls import covers
from marless.functions.nn.shape import Network
from marless.functions.setting_limits import MOST_KERNEL_LAYERS
from marless.reports import provenance
from marless.runs.view import run_title
from marless.studies.study import Study
from marless.studies.study_file import Search, StudyFile
from marless.studies.train_study import demand

PUBLISHED = tomllib.loads((Path(__file__).parents[3] / "docs/data/hashes.toml").read_text("utf-8"))
NATIVE = "algorithm.engine=native"
# The last of the first two settings is why.
NOT_EXACT = [
    ["algorithm.engine=numpy"],
    [NATIVE, "task.options.exact_physics=false"],
    [NATIVE, "task.options.continuous_actions=true"],
    [NATIVE, "evaluation.options.exact_physics=false"],
    [NATIVE, "task.name=toy/signal"],
    [NATIVE, "algorithm.recurrent=true"],
    [NATIVE, f"algorithm.hidden={[8] * MOST_KERNEL_LAYERS}"],
    [NATIVE, "algorithm.lr_schedule=cosine"],
    [NATIVE, "algorithm.priority=0.6", "algorithm.name=iql"],
    [NATIVE, "algorithm.name=isac"],
    [NATIVE, "algorithm.name=masac"],
    [NATIVE, "algorithm.name=iddpg"],
    [NATIVE, "algorithm.name=maddpg"],
    [NATIVE, "sharing.rule=dynamic"],
    [NATIVE, "sharing.rule=roles"],
    [NATIVE, "scaling.rule=gns", "actors.rollouts=4"],
    [NATIVE, "pipeline.lag=1"],
    [NATIVE, "pipeline.micro_batch=1", "actors.rollouts=2", "algorithm.epochs=1", "algorithm.num_minibatches=1"],
    [NATIVE, "opponents.side=1", "task.name=mpe/simple_tag"],
    [NATIVE, "league.rule=uniform", "task.name=mpe/simple_tag", "actors.rollouts=4"],
    [NATIVE, "base.policies=runs/one"],
    [NATIVE, "offline.dataset=recorded", "algorithm.name=iql"],
    [NATIVE, "task.judge=referee", "resources.referee.serve=games:judge"],
]
# Prefixes of settings that only inexact runs read, and of settings that affect no weight.
IDLE = (
    *(f"algorithm.{name}" for name in ("clipped", "correction", "data_chunk_length", "priority_")),
    *(f"sharing.{name}" for name in ("base", "cap", "confidence", "dist", "epsilon", "error", "grouping", "margin")),
    *("sharing.start", "sharing.trial", "scaling.beta", "scaling.min_rollouts", "scaling.priced_as", "trend."),
    *("base.", "league.", "opponents.policies", "task.name", "task.options"),
    *("attempts", "checkpoint_every", "evaluation.", "functions.", "log.", "placement.", "pricing.", "resources."),
    *("preset", "seed", "stop."),  # a preset is stop.rounds
)
# Settings that some algorithms refuse with kernels.
REFUSED = [
    *("algorithm.device=cuda", "algorithm.network=package:factory", "algorithm.mixer=package:factory"),
    "sharing.rows=member",
]


@pytest.mark.parametrize("run", PUBLISHED["runs"], ids=lambda run: "-".join(run["settings"][:2]))
def test_every_run_with_a_published_hash_is_exact(run):
    assert is_exact(load(None, [*PUBLISHED["settings"], *run["settings"]]))


@pytest.mark.parametrize("settings", NOT_EXACT, ids=lambda settings: "-".join(settings[1:]) or "numpy")
def test_run_without_comparing_test_is_not_exact(settings):
    assert not is_exact(load(None, settings))


def test_first_line_reports_missing_kernels():
    remark = "" if are_built() else ", by numpy: no kernels can be used here, marless doctor says why"
    assert run_title("one", make_plan("algorithm.engine=numpy")) == f"one{remark}"
    for settings in ([NATIVE], ["algorithm.engine=numpy", "algorithm.recurrent=true"], ["algorithm.engine=torch"]):
        assert run_title("one", make_plan(*settings)) == "one"


def test_deployed_functions_with_kernels_need_no_report():
    there = make_plan("algorithm.engine=numpy")
    assert run_title("one", replace(there, platform=there.platform.on_lambda())) == "one"


def test_network_with_too_many_layers_uses_numpy():
    deepest = f"algorithm.hidden={[8] * (MOST_KERNEL_LAYERS - 1)}"
    assert is_exact(load(None, [NATIVE, deepest]))
    assert covers(Network((4, *[8] * (MOST_KERNEL_LAYERS - 1), 3)), np.zeros(1, np.float32))
    assert not covers(Network((4, *[8] * MOST_KERNEL_LAYERS, 3)), np.zeros(1, np.float32))
    assert load(None, [deepest]).algorithm.engine == "native"
    assert load(None, [f"algorithm.hidden={[8] * MOST_KERNEL_LAYERS}"]).algorithm.engine == "numpy"


def is_refused(*settings):
    try:
        return not load(None, [NATIVE, *settings])
    except ConfigError:
        return True


@pytest.mark.parametrize(
    "algorithms", [("ippo", "mappo", "happo"), ("iql", "vdn", "qmix", "qplex", "pqn")], ids=lambda names: names[-1]
)
def test_exact_settings_vary_in_runs_with_published_hash(algorithms):
    runs = [load(None, [*PUBLISHED["settings"], *run["settings"]]) for run in PUBLISHED["runs"]]
    keys, changed = {key for name in algorithms for key in key_types(name)}, set[str]()
    for run in runs:
        if run.algorithm.name in algorithms:
            usual = RunConfig(algorithm=type(run.algorithm)())
            values, usual_values = (flatten(to_builtins(config)) for config in (run, usual))
            changed |= {key for key, value in values.items() if value != usual_values.get(key)}
    refused = [setting for setting in REFUSED if is_refused(f"algorithm.name={algorithms[0]}", setting)]
    named = {setting.partition("=")[0] for setting in [*(settings[:2][-1] for settings in NOT_EXACT), *refused]}
    assert {key for key in keys - changed - named if not key.startswith(IDLE)} == set()
    assert {run.algorithm.name for run in runs} >= {*algorithms}


def test_particle_options_are_in_runs_with_published_hash():
    runs = [load(None, [*PUBLISHED["settings"], *run["settings"]]) for run in PUBLISHED["runs"]]
    tasks = {name for name in BUILT_IN if name.startswith("mpe/")}
    assert {run.task.name for run in runs} >= tasks
    options = set[str]()
    for task in tasks:
        with pytest.raises(ValueError, match=r"no option '\?'") as refusal:
            make(EnvTask(name=task, options={"?": 1}), 1)
        options |= {*str(refusal.value).partition("there are: ")[2].rstrip(")").split(", ")}
    assert options - {option for run in runs for option in run.task.options} == {"continuous_actions"}


@pytest.mark.parametrize(
    ("prefix", "kind", "others"),
    [
        ("smax/", BattleOptions, set()),
        ("overcooked/", KitchenOptions, set()),
        # Another name of the horizon, sides for reports, and a text of several lines.
        ("lbf/", ForagingOptions, {"max_episode_steps", "sides"}),
        ("rware/", WarehouseOptions, {"max_steps", "sides", "layout"}),
    ],
)
def test_game_options_are_in_runs_with_published_hash(prefix, kind, others):
    runs = [load(None, [*PUBLISHED["settings"], *run["settings"]]) for run in PUBLISHED["runs"]]
    options = {option for run in runs if run.task.name.startswith(prefix) for option in run.task.options}
    assert options == {*kind.__struct_fields__} - others


def test_task_of_other_package_is_not_exact():
    config = load(None, [NATIVE])
    assert is_exact(config)
    assert not is_exact(replace_field(config, task=replace_field(config.task, name="mpe/mine")))


@needs_kernels
def test_drivers_request_kernels_and_processors_that_runs_need():
    numpy, exact, native = (
        load(None, settings) for settings in (["algorithm.engine=numpy"], [NATIVE], [NATIVE, "task.name=toy/signal"])
    )
    asked = {"numpy": [numpy], "exact": [exact], "native": [exact, native], "both": [exact, numpy]}
    badges = {name: driver_badge(runs) for name, runs in asked.items()}
    here = provenance.machine()
    assert {name: (each.processor, each.kernels) for name, each in badges.items()} == {
        "numpy": (here, False),
        "exact": ("", True),
        "native": (here, True),
        "both": (here, True),
    }
    assert {(each.processor, each.kernels) for each in (driver_badge([run], True) for run in (numpy, exact))} == {
        (here, True)
    }
    assert badge().kernels and {each.program for each in badges.values()} == {badge().program}


def study_badge(folder, search, engine, vary):
    file = StudyFile(base={"algorithm": {"engine": engine}}, vary=vary, search=search)
    study = Study(folder, file, [1])
    study.begin()
    asked = demand(study)
    return driver_badge(asked.runs, asked.more_follow)


@needs_kernels
@pytest.mark.parametrize("search", [Search(), Search(parallel=1), Search(rule="random", settings=9, parallel=1)])
def test_study_requests_needs_of_present_and_later_settings(search, tmp_path):
    exact, both = {"algorithm": {"gamma": [0.9, 0.8]}}, {"sharing": {"rule": ["none", "dynamic"]}}
    badges = [study_badge(tmp_path, search, engine, vary) for engine in ("numpy", "native") for vary in (exact, both)]
    here = provenance.machine()
    assert [(each.processor, each.kernels) for each in badges] == [(here, False)] * 2 + [("", True), (here, True)]


@needs_kernels
def test_searching_study_requests_needs_of_any_setting(tmp_path):
    pytest.importorskip("optuna")
    search = Search(rule="optuna", settings=2, parallel=1)
    asked = study_badge(tmp_path, search, "numpy", {"algorithm": {"gamma": [0.9, 0.8]}})
    assert asked.processor == provenance.machine() and asked.kernels
