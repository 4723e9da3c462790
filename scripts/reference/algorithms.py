"""docs/reference/algorithms.md: the algorithms, their settings, and where their defaults come from."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from marless.coordinator.config.config_keys import descriptions
from marless.coordinator.config.loading import load
from marless.coordinator.config.task_defaults import FAMILIES, family_defaults
from marless.functions.algorithms.registry import ALGORITHMS, implementation
from marless.functions.algorithms.specification import AlgorithmSpec
from marless.functions.environments import registry
from marless.functions.environments.base import AgentClass, EnvSpec, EnvTask
from marless.functions.environments.task_names import GUESTS
from marless.functions.errors import BadRequest
from marless.functions.messages.team import Team
from scripts.reference import markdown

SPREAD = EnvTask(name="mpe/simple_spread")
# Properties of an environment that change defaults, each with an example.
VARIANTS = {
    "from six agents on": EnvTask(name="mpe/simple_spread", agents=6),
    "continuous actions": EnvTask(name="mpe/simple_spread", options={"continuous_actions": True}),
}
ACTIONS = {
    "discrete": AgentClass("all", (0, 1), 3, 3),
    "multi-discrete": AgentClass("all", (0, 1), 3, 5, branches=(3, 2)),
    "continuous": AgentClass("all", (0, 1), 3, 1, low=(-1.0,), high=(1.0,)),
}
# Families by package. Defaults of some settings of the run depend on the algorithm.
COLUMNS = {
    "ppo": "PPO family",
    "value": "value methods",
    "ddpg": "DDPG family",
    "sac": "SAC family",
    "imitation": "imitation",
    "language": "agents that speak",
}
# Settings that the command line needs besides the name.
NEEDED = {"bc": "offline.dataset=data", "grpo": "task.name=text/relay"}
RUN = ("actors.num_envs", "sharing.rule", "placement.rule")


def page() -> str:
    """The whole page."""
    text = markdown.data("algorithms.toml")
    template = (markdown.DATA / "algorithms.md").read_text(encoding="utf-8")
    tables = {
        "algorithms": _algorithms(text["algorithms"]),
        "settings": _settings(),
        "sources": _sources(text["defaults"]),
        "families": _families(text["families"]),
        "papers": "\n".join(f"* {paper}" for paper in text["papers"]),
    }
    for name, table in tables.items():
        template = template.replace(f"{{{{ {name} }}}}", table)
    return markdown.page("Algorithms", "`docs/data/algorithms.*` or the code", [template.strip()])


def actions(spec: AlgorithmSpec) -> list[str]:
    """The kinds of actions that an algorithm supports, found by initialising it for each."""
    taken = []
    for name, kind in ACTIONS.items():
        task = EnvSpec(("a", "b"), (kind,), horizon=5)
        try:
            implementation(spec).initialise(task, Team(groups=(0, 1)), spec.config().resolved(task), 1, 0)
            taken.append(name)
        except BadRequest:
            pass
    return taken


def settings_of(spec: AlgorithmSpec, task: EnvTask = SPREAD) -> dict[str, Any]:
    """An algorithm's default settings in an environment, by name."""
    return msgspec.structs.asdict(spec.config().resolved(registry.spec(task)))


def _algorithms(text: Mapping[str, Sequence[str]]) -> str:
    rows = []
    for spec in ALGORITHMS.ours():
        what, source = text[spec.name]
        trained_on = "replay buffer" if spec.config().replayed_steps else "the round's data"
        takes = "tokens" if spec.function else ", ".join(actions(spec))
        rows.append((markdown.code(spec.name), what, takes, trained_on, _graph(spec), source))
    header = ("`algorithm.name`", "what it is", "actions", "trained on", "stages", "source")
    return markdown.table(header, rows)


def _graph(spec: AlgorithmSpec) -> str:
    """Return the schedule of the stages, with stages of the same depth together."""
    depth: dict[str, int] = {}
    for stage in spec.stages:
        depth[stage.name] = max((depth[before] + 1 for before in stage.after), default=0)
    schedule = [[name for name in depth if depth[name] == level] for level in range(max(depth.values()) + 1)]
    return " → ".join(", ".join(wave) for wave in schedule)


def _family(spec: AlgorithmSpec) -> str:
    return next(part for part in str(spec.implementation).replace("_", ".").split(".") if part in COLUMNS)


def _settings() -> str:
    """Every setting with its meaning and, for each family, its default."""
    means: dict[str, str] = {}
    for spec in ALGORITHMS.ours():
        for name in spec.config.__struct_fields__:
            means.setdefault(name, descriptions(spec.config).get(name, ""))
    rows = [
        (markdown.code(name), markdown.escaped(meaning), *(_cell(name, family) for family in COLUMNS))
        for name, meaning in means.items()
    ]
    run = [(markdown.code(key), "a key of the run", *(_run_cell(key, family) for family in COLUMNS)) for key in RUN]
    return markdown.table(("`algorithm.`", "meaning", *COLUMNS.values()), [*rows, *run])


def _members(family: str) -> list[AlgorithmSpec]:
    return [spec for spec in ALGORITHMS.ours() if _family(spec) == family]


def _cell(name: str, family: str) -> str:
    """Return the family's default first, then defaults of single algorithms and of other environments."""
    own = {spec.name: settings_of(spec)[name] for spec in _members(family) if name in settings_of(spec)}
    parts = _shared(own, [spec.name for spec in _members(family) if spec.name not in own])
    for variant, task in VARIANTS.items():
        changed = {settings_of(spec, task)[name] for spec in _members(family) if spec.name in own} - {*own.values()}
        parts += [f"{variant} {_default_text(value)}" for value in sorted(changed)]
    return ", ".join(parts)


def _run_cell(key: str, family: str) -> str:
    table, name = key.split(".")
    own = {}
    for spec in _members(family):
        needed = [NEEDED[spec.name]] if spec.name in NEEDED else []
        own[spec.name] = getattr(getattr(load(None, [f"algorithm.name={spec.name}", *needed]), table), name)
    return ", ".join(_shared(own, []))


def _shared(own: Mapping[str, Any], without: Sequence[str]) -> list[str]:
    """Return the most frequent value, the values of the others, and the algorithms `without` a value."""
    if not own:
        return []
    values = list(own.values())
    usual = max(values, key=values.count)
    others = [f"{name} {_default_text(value)}" for name, value in own.items() if value != usual]
    if len(own) <= 2 * len(without):
        return [f"{name} {_default_text(value)}" for name, value in own.items()]
    return [_default_text(usual), *others, *(f"except {name}" for name in without)]


def _default_text(value: Any) -> str:
    return "none" if value is None else markdown.value(value)


def _sources(text: Mapping[str, str]) -> str:
    known = {name: None for spec in ALGORITHMS.ours() for name in settings_of(spec)}
    keys = [*known, *(key for key in RUN if key in text)]
    if surplus := text.keys() - {*keys}:
        raise KeyError(f"docs/data/algorithms.toml: no algorithm has {', '.join(sorted(surplus))}")
    by_source: dict[str, list[str]] = {}
    for key in keys:
        by_source.setdefault(text[key], []).append(markdown.code(key))
    rows = [(", ".join(names), source) for source, names in by_source.items()]
    return markdown.table(("setting", "source, and why the default differs from it"), rows)


def _families(text: Mapping[str, str]) -> str:
    if wrong := text.keys() ^ {*FAMILIES, *GUESTS}:
        raise KeyError(
            f"docs/data/algorithms.toml: the reason of a family is missing or superfluous: {', '.join(sorted(wrong))}"
        )
    rows = []
    for prefix in text:
        cells = [_pairs(family_defaults(prefix, "")[1])]
        alone = {name: family_defaults(prefix, name)[0] for name in ALGORITHMS.built_in}
        cells += [f"{markdown.code(name)}: {_pairs(settings)}" for name, settings in alone.items() if settings]
        rows.append(
            (markdown.code(f"{prefix}…") if prefix else "all others, yours too", "<br>".join(cells), text[prefix])
        )
    return markdown.table(("environments", "defaults", "reason"), rows)


def _pairs(settings: Mapping[str, Any]) -> str:
    return ", ".join(markdown.code(f"{key}={markdown.value(value).strip('`')}") for key, value in settings.items())
