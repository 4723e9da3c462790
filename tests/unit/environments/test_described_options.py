"""The entries of docs/data/environments.toml against the code and the packages of the environments."""

import inspect
import re
from importlib.metadata import entry_points
from pathlib import Path

import msgspec
import numpy as np
import pytest
import smac_stand_in

from marless.functions.environments import corridor, dial, matrix, registry, toy
from marless.functions.environments.base import EnvTask
from marless.functions.environments.games import foraging, warehouse
from marless.functions.environments.pettingzoo import factory
from marless.functions.environments.roles import apprentices, blind_spread
from marless.functions.environments.task_names import ENVIRONMENTS, is_known
from marless.functions.errors import BadRequest, MissingExtra
from marless_tasks.tuple_environment import registered_environment
from scripts.reference import environments, markdown

ROOT = Path(__file__).parents[3]
TEXT = markdown.data("environments.toml")
BUILT_IN = sorted({*ENVIRONMENTS} - entry_points(group=ENVIRONMENTS.group).names)
# For each documented set of tasks, one task to try an option with.
ONE = {
    "lbf/…": "lbf/8x8-2p-3f",
    "rware/…": "rware/tiny-2ag",
    "overcooked/…": "overcooked/cramped_room",
    "smac/…": "smac/3m",
    "smacv2/…": "smacv2/terran_3_vs_3",
    "smax/…": "smax/3m",
    "vmas/…": "vmas/balance",
    "hanabi/…": "hanabi/small",
    "meltingpot/…": "meltingpot/coins",
    "pettingzoo:…": "pettingzoo:mpe2.simple_spread_v3:parallel_env",
}
OPTIONS = [
    (option, kind, default, name)
    for rows in TEXT["options"].values()
    for option, of, kind, default, _ in rows
    for pattern in of
    for name in (BUILT_IN if pattern == "mpe/…" else [ONE.get(pattern, pattern)])
    if pattern != "mpe/…" or name.startswith("mpe/")
]
SWITCHES = ("joint_actions", "rebuild")
GAMES = {ONE["lbf/…"]: foraging.ForagingOptions, ONE["rware/…"]: warehouse.WarehouseOptions}
OURS = [
    row
    for row in OPTIONS
    if row[3] in (*BUILT_IN, ONE["overcooked/…"])
    or row[0] == "repeatable"
    or (row[3] in GAMES and row[2] not in ("by name", "none"))
]
CHECKED = [*OURS, *(row for row in OPTIONS if row[0] in SWITCHES)]
# A value of a wrong type for each documented type.
WRONG = {
    "true or false": "x",
    "number": "x",
    "number from 0 to 1": 1.5,
    "number from 0": -0.5,
    "number, 0 at most": 0.5,
    "text": 3,
    **{f"whole number from {least}": least - 1 for least in (0, 1, 2)},
}
EXAMPLES = sorted({*TEXT["pettingzoo"], *(name for family in TEXT["families"].values() for name in family[2])})


def installed_by(name):
    parts = ("sisl", "pistonball", "chess", "hanabi", "holdem", "leduc", "texas")
    large = name.startswith("pettingzoo:") and any(re.search(rf"[._]{part}", name) for part in parts)
    large = large or name.startswith(("package:overcooked/", "mamujoco/", "magent2/"))
    return [pytest.mark.packages] * large


def each(tasks):
    return [pytest.param(name, marks=installed_by(name)) for name in tasks]


def spec(name, **options):
    if name.endswith(":env"):  # games of turns, which do not say how long they are
        options["horizon"] = 9
    try:
        return registry.spec(EnvTask(name=name, options=options))
    except MissingExtra as missing:
        pytest.skip(str(missing))


def read(default):
    if default in ("true", "false"):
        return default == "true"
    if re.fullmatch(r"-?\d+", default):
        return int(default)
    return float(default) if re.fullmatch(r"-?[\d.]+", default) else default


@pytest.fixture
def starcraft(shell):
    shell.provide(smac_stand_in.modules(smac_stand_in.World()))


@pytest.mark.parametrize("name", each(EXAMPLES))
@pytest.mark.filterwarnings("ignore")
def test_every_name_in_the_text_is_a_task(starcraft, name):
    assert is_known(name)
    # Only SMAC knows its maps.
    if not name.startswith("smac/"):
        assert spec(name).agents


@pytest.mark.parametrize("name", BUILT_IN)
def test_documented_minimum_of_agents_can_be_chosen(name):
    own, least = len(registry.spec(EnvTask(name=name)).agents), [n for n in [TEXT["tasks"][name][0]] if n]
    for agents in least:
        assert len(registry.spec(EnvTask(name=name, agents=agents)).agents) == agents
        assert len(registry.spec(EnvTask(name=name, agents=own + 1)).agents) == own + 1
    with pytest.raises(BadRequest):
        registry.spec(EnvTask(name=name, agents=least[0] - 1 if least else own + 1))


def known_options(name):
    if name.startswith("mpe/"):
        with pytest.raises(BadRequest, match="there are: ") as refused:
            registry.make(EnvTask(name=name, options={"no option": 1}), 1)
        return set(str(refused.value).split("there are: ")[1].rstrip(")").split(", "))
    own = {
        "toy/signal": toy.SignalOptions,
        "toy/corridor": corridor.CorridorOptions,
        "toy/dial": dial.DialOptions,
        "roles/apprentices": apprentices.ApprenticesOptions,
        "roles/blind_spread": blind_spread.BlindSpreadOptions,
        "matrix/penalty": matrix.PenaltyOptions,
    }
    return {field.name for field in msgspec.structs.fields(own.get(name, matrix.NoOptions))}


@pytest.mark.parametrize("name", GAMES)
def test_every_option_of_a_game_is_documented(name):
    known = {field.name for field in msgspec.structs.fields(GAMES[name])}
    # The package's names of the horizon are taken too.
    assert {option for option, _, _, task in OPTIONS if task == name} == known - {"max_episode_steps", "max_steps"}


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_option_is_documented(name):
    assert {option for option, _, _, task in OPTIONS if task == name} == known_options(name)


def test_every_option_of_the_adapters_is_documented():
    assert {option for option, _, _, task in OPTIONS if task == ONE["pettingzoo:…"]} == {*factory.ADAPTER_OPTIONS}
    for start in ("smac/…", "smacv2/…"):
        assert [option for option, _, _, task in OPTIONS if task == ONE[start]] == ["repeatable"]


def played(name, **options):
    try:
        environment = registry.make(EnvTask(name=name, options=options), 16)
    except MissingExtra as missing:
        pytest.skip(str(missing))
    rng, outputs = np.random.default_rng(0), [environment.spec]
    # The second reset shows state that survives resets.
    for _ in range(2):
        seen = environment.reset(np.random.default_rng(1))
        for _ in range(14):
            step = environment.step(tuple(acted(environment.spec, seen, rng)))
            seen = step.observation
            outputs += [*seen.values, seen.alive, step.rewards, step.terminated, step.ended, *step.env_metrics.values()]
    environment.close()
    return outputs


def acted(task, seen, rng):
    for index, kind in enumerate(task.classes):
        shape = (16, len(kind.agents))
        if kind.continuous:
            yield rng.uniform(kind.low, kind.high, (*shape, kind.actions)).astype(np.float32)
        elif seen.masks is None:
            yield rng.integers(kind.actions, size=shape)
        else:
            yield (rng.random((*shape, kind.actions)) * seen.masks[index]).argmax(axis=2)


def equal(one, other):
    return one[0] == other[0] and all(np.array_equal(*pair) for pair in zip(one[1:], other[1:], strict=True))


@pytest.mark.parametrize(("option", "kind", "default", "name"), OURS)
def test_setting_documented_default_changes_nothing(starcraft, option, kind, default, name):
    assert equal(played(name, **{option: read(default)}), played(name))


def test_the_adapters_switches_are_off_as_documented():
    pytest.importorskip("rware")
    assert {default for option, _, default, _ in OPTIONS if option in SWITCHES} == {"false"}
    environment = registry.make(EnvTask(name="package:rware/tiny-2ag", options={"msg_bits": 2}), 1)
    assert environment.spec.classes[0].branches and environment._rebuild is None


@pytest.mark.parametrize(("option", "kind", "default", "name"), CHECKED)
def test_value_of_undocumented_type_is_refused(starcraft, option, kind, default, name):
    spec(name, **{option: read(default)})
    with pytest.raises(BadRequest):
        registry.spec(EnvTask(name=name, options={option: WRONG[kind]}))


def said(found):
    return "none" if found is None else str(getattr(found, "name", found)).lower()


def check_options_of_a_package(documented, own, left):
    """`documented` are the table's defaults by option, `own` the package's. No option sets the parameters `left`."""
    assert documented.keys() == own.keys() - left
    assert {option: default for option, default in documented.items() if default != "by name"} == {
        option: said(own[option]) for option, default in documented.items() if default != "by name"
    }


def defaults(function):
    parameters = inspect.signature(function).parameters.values()
    return {one.name: one.default for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD and one.name != "self"}


@pytest.mark.parametrize(
    ("name", "package", "pattern", "horizon", "left"),
    [
        (ONE["lbf/…"], "lbforaging", "Foraging-{}-v3", "max_episode_steps", {"field_size", "render_mode"}),
        (ONE["rware/…"], "rware", "rware-{}-v2", "max_steps", {"image_observation_layers", "render_mode"}),
    ],
)
def test_options_of_packages_are_theirs_with_their_defaults(name, package, pattern, horizon, left):
    pytest.importorskip(package)
    creator, standard = registered_environment(name, package, pattern, "")
    own = defaults(creator) | standard
    own["horizon"] = own.pop(horizon)
    adapters = {"sides", "rebuild", "joint_actions"}
    documented = {option: default for option, _, default, task in OPTIONS if task == name and option not in adapters}
    check_options_of_a_package(documented, own, left)


@pytest.mark.parametrize("option", ["players", "field", "sight", "force_coop", "max_num_food"])
def test_foraging_name_parts_are_documented(option):
    pytest.importorskip("lbforaging")
    one, other = (
        registered_environment(f"lbf/{name}", "lbforaging", "Foraging-{}-v3", "")[1]
        for name in ("8x8-2p-3f", "2s-9x9-3p-2f-coop")
    )
    option = "field_size" if option == "field" else option
    assert one[option] != other[option]


def test_make_targets_install_extras_of_page():
    makefile = ROOT.joinpath("Makefile").read_text()
    for target, stamp in environments.TARGETS.items():
        assert re.search(rf"^{target.split()[1]}: \$\(STAMPS\)/.*\b{stamp}\b", makefile, re.MULTILINE)
    targets = {extra: environments.installed_by(extra) for extra in environments.requirements()}
    assert targets["tasks"] == ["make train", "make test", "make conformance"]
    assert targets["lbf"] == ["make test", "make conformance"]
    assert targets["smac"] == []


@pytest.mark.parametrize("name", each(TEXT["pettingzoo"]))
@pytest.mark.filterwarnings("ignore")
def test_agents_and_actions_of_pettingzoos_families_are_theirs(name):
    agents, actions, extra = TEXT["pettingzoo"][name]
    env_spec = spec(name)
    assert agents == len(env_spec.agents)
    assert {actions.removesuffix(", in turns")} == {
        "continuous" if kind.continuous else "discrete" for kind in env_spec.classes
    }
    assert extra in environments.requirements()


def test_the_example_in_python_runs(capsys):
    text = (markdown.DATA / "environments.md").read_text(encoding="utf-8")
    exec(text.split("```python\n")[1].split("```")[0], {})
    assert "agents=('adversary_0', 'adversary_1', 'adversary_2', 'agent_0', 'agent_1')" in capsys.readouterr().out
