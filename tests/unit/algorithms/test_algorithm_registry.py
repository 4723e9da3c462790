"""Names of algorithms: built-in, plug-ins, messages for unknown names, and settings that are passed to functions."""

import dataclasses
import subprocess
import sys
import tomllib

import msgspec
import pytest
from simulated import SPEC as TASK
from simulated import make_plan

from marless.coordinator.config.config_keys import valid_keys
from marless.coordinator.config.loading import convert, load
from marless.coordinator.config.schema import ConfigError, RunConfig
from marless.coordinator.config.toml_dump import document
from marless.coordinator.core.round_graph import in_flight
from marless.coordinator.core.state import State
from marless.coordinator.drive import run_manifest
from marless.coordinator.drive.run_manifest import RunManifest
from marless.coordinator.placement.placement_rules import LEARNER_PLACEMENTS
from marless.coordinator.platform import Platform
from marless.functions.algorithms import registry
from marless.functions.algorithms.ppo.specs import MAPPO
from marless.functions.algorithms.schedule import SCHEDULES
from marless.functions.algorithms.validation import missing_stages, violation
from marless.functions.errors import BadRequest, MissingExtra
from marless.functions.messages.learner import Hyperparameters
from marless.functions.messages.message import Record
from marless.functions.messages.team import Team

HEADER = """
from typing import Annotated, Literal
import msgspec
from marless.functions.algorithms.specification import AlgorithmConfig, AlgorithmSpec, StageSpec
from marless.functions.algorithms.stage import as_base
"""
CONFIG = """
class Config(AlgorithmConfig, frozen=True, kw_only=True, tag_field="name", tag="house"):
    rate: Annotated[float, msgspec.Meta(gt=0, description="a number")] = 0.5
    widths: Annotated[tuple[int, ...], msgspec.Meta(description="whole numbers")] = (3, 4)
    kind: Annotated[Literal["one", "two"], msgspec.Meta(description="a choice")] = "one"
    late: Annotated[bool, msgspec.Meta(description="a flag")] = False
    most: Annotated[int, msgspec.Meta(description="a count")] | None = None
"""
SPEC = """
STAGE = StageSpec("policy", (), "group", ("policy",), ("policy",))
SPEC = AlgorithmSpec("house", Config, (STAGE,), ("policy",), __name__)
STAGES, SUMMARIES, initialise, merge = {"policy": print}, {}, print, as_base
"""
MODULES = {
    "house_good": HEADER + CONFIG + SPEC,
    "house_raises": "raise OSError('no licence\\nfound')",
    "house_lacks": "import a_package_nobody_has",
    "house_half": "import numpy.nothing",
    "house_typo": "from house_good import missing_name",
    "house_heavy": HEADER
    + CONFIG.replace("house", "heavy")
    + SPEC.replace('"house"', '"heavy"').replace("__name__", '"house_lacks"'),
    "house_loose": HEADER + CONFIG.replace("house", "loose") + SPEC.replace('"house"', '"loose"') + "del initialise\n",
    "house_wide": HEADER
    + CONFIG.replace("house", "wide").replace("tuple[int, ...]", "tuple[float, ...]").replace("(3, 4)", "(0.5, 0.25)")
    + SPEC.replace('"house"', '"wide"'),
}  # fmt: skip
ENTRIES = """[marless.algorithms]
house = house_good:SPEC
house_raises = house_raises:SPEC
house_lacks = house_lacks:SPEC
house_absent = house_good:NOTHING
house_nowhere = house_good.nowhere:SPEC
house_half = house_half:SPEC
house_typo = house_typo:SPEC
house_config = house_good:Config
other_name = house_good:SPEC
heavy = house_heavy:SPEC
loose = house_loose:SPEC
wide = house_wide:SPEC
mappo = house_raises:SPEC
"""


@pytest.fixture(autouse=True)
def plug_ins(tmp_path, shell):
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    install(tmp_path, "houses", ENTRIES)
    shell.import_from(tmp_path)
    yield tmp_path
    registry.ALGORITHMS._loaded.clear()
    for name in MODULES:
        sys.modules.pop(name, None)


def install(folder, name, entries):
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries)


def test_own_algorithms_are_listed_before_plug_ins():
    assert registry.names()[:2] == ("ippo", "mappo")
    assert {"house", "heavy"} < {*registry.names()[len(registry.ALGORITHMS.built_in) :]}
    assert len({*registry.names()}) == len(registry.names())


def test_a_plug_in_is_found_by_its_name():
    assert registry.algorithm("house").parts == ("policy",)
    assert registry.implementation(registry.algorithm("house")).STAGES["policy"] is print


def test_plug_in_cannot_take_own_algorithm_name():
    assert registry.algorithm("mappo") is MAPPO


REFUSED = {
    "house_raises": (BadRequest, "'house_raises' (house_raises:SPEC) does not load: OSError: no licence found"),
    "house_absent": (BadRequest, "does not load: AttributeError"),
    "house_nowhere": (BadRequest, "does not load: ModuleNotFoundError"),
    "house_half": (BadRequest, "does not load: ModuleNotFoundError: No module named 'numpy.nothing'"),
    "house_typo": (BadRequest, "does not load: ImportError: cannot import name 'missing_name'"),
    "house_config": (BadRequest, "cannot be used: it is of type StructMeta, not AlgorithmSpec"),
    "other_name": (BadRequest, "cannot be used: it calls itself 'house'; both names must be the same"),
    "house_lacks": (MissingExtra, "needs the package 'a_package_nobody_has': pip install a_package_nobody_has"),
    "mapo": (BadRequest, "no algorithm is called 'mapo'; did you mean mappo?"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_impossible_algorithm_is_refused_in_one_line(name):
    kind, says = REFUSED[name]
    with pytest.raises(kind) as refused:
        registry.algorithm(name)
    assert says in str(refused.value) and "\n" not in str(refused.value)
    with pytest.raises(ConfigError) as report:
        load(None, [f"algorithm.name={name}"])
    assert str(report.value) == f"the command line: algorithm.name: {refused.value}"


def test_two_packages_with_one_name_are_both_named(plug_ins, shell):
    install(plug_ins, "more", "[marless.algorithms]\nhouse = house_wide:SPEC\n")
    shell.import_from(plug_ins / "elsewhere")  # another path is searched again
    with pytest.raises(BadRequest, match=r"several packages offer the algorithm 'house': .*; uninstall all but one"):
        registry.algorithm("house")


def test_stage_requirements_are_checked_where_they_run():
    heavy = registry.algorithm("heavy")
    with pytest.raises(
        MissingExtra, match=r"algorithm 'heavy' \(house_lacks\) needs the package 'a_package_nobody_has'"
    ):
        registry.implementation(heavy)


def test_incomplete_module_of_stages_is_named():
    with pytest.raises(BadRequest, match=r"algorithm 'loose' \(house_loose\) cannot be used: it has no initialise"):
        registry.implementation(registry.algorithm("loose"))


def test_algorithm_with_sums_has_folds_for_every_stage():
    happo = registry.algorithm("happo")
    summed = dataclasses.replace(happo, sum_parts=("policy", "critic"), summaries=())
    code = registry.implementation(happo)
    assert missing_stages(summed, code) == (
        "the specification lists sum_parts, and it has no PARTIAL, or not one of FOLDS for every stage"
    )
    stages = dict.fromkeys(code.STAGES, lambda context, group, sums: None)
    assert missing_stages(summed, code._replace(PARTIAL=lambda context, group: {}, FOLDS=stages)) == ""
    assert violation(dataclasses.replace(happo, sum_parts=("value",))) == (
        "'value' of its sum_parts is none of its parts"
    )


@pytest.mark.parametrize("how", [{"frozen": False}, {"forbid_unknown_fields": False}])
def test_mutable_or_open_configuration_is_named(how):
    config = msgspec.defstruct(
        "Loose", [], bases=(MAPPO.config,), tag_field="name", tag=MAPPO.name, **{"frozen": True} | how
    )
    says = "its configuration Loose can be changed, or takes fields that it does not have"
    assert violation(dataclasses.replace(MAPPO, config=config)) == says


def test_registry_import_loads_nothing_heavy_or_foreign():
    code = (
        "import sys, marless.functions.algorithms.registry, marless.testing.algorithms.conformance\n"
        "print([m for m in ('torch', 'pydantic', 'boto3', 'house_good') if m in sys.modules])"
    )
    report = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert report.stdout.strip() == "[]"


OVERRIDES = [
    "algorithm.name=house",
    "algorithm.rate=2",
    "algorithm.widths=[7]",
    "algorithm.kind=two",
    "algorithm.most=9",
]


def test_plug_in_settings_are_typed_in_configuration():
    found = load(None, OVERRIDES).algorithm
    assert type(found).__name__ == "Config"
    assert (found.rate, found.widths, found.kind, found.late, found.most) == (2.0, (7,), "two", False, 9)


def test_plug_in_settings_are_listed_with_descriptions():
    keys = valid_keys("house")
    own = {key: text for key, text in keys.items() if key.startswith("algorithm.") and key != "algorithm.name"}
    assert own == {
        "algorithm.rate": "a number",
        "algorithm.widths": "whole numbers",
        "algorithm.kind": "a choice",
        "algorithm.late": "a flag",
        "algorithm.most": "a count",
    }
    assert "house" in keys["algorithm.name"].split(", ")


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("algorithm.rat=1", "there is no key algorithm.rat; did you mean algorithm.rate?"),
        ("algorithm.gamma=1", "qmix, qplex, pqn, iddpg, maddpg, isac and masac, not of house"),
        ("algorithm.rate=0", "algorithm.rate: 0 is not a number above 0, such as algorithm.rate="),
        ("algorithm.widths=a,2", "algorithm.widths: 'a' is not a whole number, such as algorithm.widths="),
        ("algorithm.widths=[1, true]", "algorithm.widths: true is not a whole number"),
        ("algorithm.kind=three", "algorithm.kind: 'three' is not one of "),
        ("sharing.rule=dynamic", "sharing.rule: teams of house cannot change during a run; use none or all"),
    ],
)
def test_impossible_setting_is_refused_with_its_key(override, says):
    with pytest.raises(ConfigError) as refused:
        load(None, ["algorithm.name=house", override])
    assert says in str(refused.value)


def test_printed_plug_in_configuration_reads_back():
    config = load(None, OVERRIDES)
    assert convert(tomllib.loads(document(config)), "printed") == config


class Ledger(dict):
    def load(self, item):
        return self.get(item)

    def commit(self, item, body, version):
        self[item] = Record(version=version + 1, body=body)


def test_plug_in_settings_reach_detached_coordinator():
    config, ledger = load(None, OVERRIDES), Ledger()
    fields = {"run": "r", "tenant": "t", "code": "c", "identity": msgspec.Raw(b"{}"), "functions": {}}
    run_manifest.write(ledger, RunManifest(config=config, **fields, platform=Platform(can_inline=False)))
    assert run_manifest.read(ledger).config == config


def test_manifest_of_missing_algorithm_says_so():
    body = msgspec.json.encode(msgspec.to_builtins(RunConfig()) | {"algorithm": {"name": "uninstalled"}})
    with pytest.raises(msgspec.ValidationError, match="no algorithm is called 'uninstalled'"):
        msgspec.json.decode(body, type=RunConfig)


@pytest.mark.parametrize("overrides", [OVERRIDES, ["algorithm.name=house"], [], ["algorithm.name=ippo"]])
def test_settings_survive_travel_to_function(overrides):
    config = load(None, overrides).algorithm
    spec = registry.algorithm(config.__struct_config__.tag)
    body = msgspec.json.encode(registry.hyperparameters(config))
    assert registry.configuration(spec, msgspec.json.decode(body, type=Hyperparameters)) == config


def test_coordinator_sends_plug_in_settings_with_tasks():
    plan = make_plan(*OVERRIDES)
    (task,) = in_flight(plan, State(phase="initialise", spec=TASK, team=Team(groups=(0, 1))))
    request = task.request()
    assert request.learning.algorithm == "house"
    assert (
        registry.configuration(registry.algorithm("house"), request.learning.hyperparameters) == plan.config.algorithm
    )


def test_setting_that_cannot_travel_is_refused_early():
    with pytest.raises(ConfigError) as refused:
        load(None, ["algorithm.name=wide"])
    assert str(refused.value) == (
        "the command line: algorithm.widths = (0.5, 0.25) cannot travel to functions; "
        "what can is a number, a text, true or false, or a list of whole numbers"
    )


@pytest.mark.parametrize("name", ["iql", "qmix", "isac", "iddpg"])
def test_target_moves_at_most_whole_way(name):
    assert load(None, [f"algorithm.name={name}", "algorithm.tau=1.0"]).algorithm.tau == 1
    with pytest.raises(ConfigError, match=r"algorithm\.tau"):
        load(None, [f"algorithm.name={name}", "algorithm.tau=1.5"])


@pytest.mark.parametrize("spec", registry.ALGORITHMS.ours(), ids=lambda spec: spec.name)
def test_own_specifications_meet_plug_in_rules(spec):
    assert violation(spec) == ""
    assert missing_stages(spec, registry.implementation(spec)) == ""


@pytest.mark.parametrize("spec", registry.ALGORITHMS.ours(), ids=lambda spec: spec.name)
@pytest.mark.parametrize("rule", SCHEDULES)
@pytest.mark.parametrize("updates", [1, 3])
def test_check_tries_requests_of_coordinator(spec, rule, updates):
    for groups in ([0], [0, 1, 4]):
        asked = LEARNER_PLACEMENTS[rule](spec.stages, groups, updates)
        works = [
            [(work.stages, work.groups, range(work.first, work.first + work.updates), work.omissions) for work in wave]
            for wave in asked
        ]
        assert [[tuple(share) for share in wave] for wave in SCHEDULES[rule](spec.stages, groups, updates)] == works
