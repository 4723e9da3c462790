"""docs/reference/environments.md: environments by family, their options, and their packages."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from marless.coordinator.core.sides import sides_of
from marless.functions.algorithms.registry import ALGORITHMS
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.environments.games.battles import MAPS
from marless.functions.environments.starcraft.smac_scenarios import PACKAGES
from marless.functions.environments.task_names import BUILT_IN, FAMILIES, GUESTS
from scripts.reference import installing, markdown
from scripts.reference.algorithms import ACTIONS, actions

ROOT = Path(__file__).parents[2]
# Extras without environments.
_RESULTS = {"report", "live", "export", "datasets", "tensorboard", "wandb", "mlflow"}
OTHER_EXTRAS = {
    "completion",
    "language",
    "learner",
    "networks",
    "cluster",
    "server",
    "zoo",
    "cloud",
    "ray",
    "aws",
    "emulated",
    "search",
    "notebook",
    "dev",
    "docs",
} | _RESULTS
# The last of the Makefile's stamps that each target installs.
TARGETS = {"make train": "use", "make test": "develop", "make conformance": "tasks"}
_WHERE = {
    "discrete": "everywhere except below",
    "multi-discrete": "RWARE with `msg_bits`; PettingZoo with `MultiDiscrete`, `MultiBinary`, without `joint_actions`",
    "continuous": "MPE with `continuous_actions=true`; PettingZoo with `Box`, as in `multiwalker` and `pistonball`",
}


def page() -> str:
    """The whole page."""
    text = markdown.data("environments.toml")
    template = (markdown.DATA / "environments.md").read_text(encoding="utf-8")
    tables = {
        "families": _families(text["families"]),
        "actions": _actions(),
        "extras": _extras(text["extras"]),
        "tasks": _tasks(text["tasks"]),
        "pettingzoo": _pettingzoo(text["pettingzoo"]),
        "smac": "\n".join(PACKAGES.values()),
        "smax maps": ", ".join(map(markdown.code, MAPS)),
        **{f"options {name}": _options(rows) for name, rows in text["options"].items()},
    }
    for name, table in tables.items():
        template = template.replace(f"{{{{ {name} }}}}", table)
    return markdown.page("Environments", "`docs/data/environments.*` or the code", [template.strip()])


def installed_by(extra: str) -> list[str]:
    """The targets of make that install an extra."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = []
    for target, stamp in TARGETS.items():
        recipe = re.search(rf"^\$\(STAMPS\)/{stamp}:.*?'\.\[([\w,]+)\]'", makefile, re.MULTILINE | re.DOTALL)
        if recipe and extra in recipe[1].split(","):
            found.append(target)
    return found


def requirements() -> dict[str, list[str]]:
    """Return the packages that each extra with environments brings."""
    return {name: brought for name, brought in installing.requirements().items() if name not in OTHER_EXTRAS}


def _families(text: Mapping[str, Sequence[Any]]) -> str:
    known = {*FAMILIES.built_in, *GUESTS, *(f"{name.partition('/')[0]}/" for name in BUILT_IN)}
    if text.keys() != known:
        raise KeyError(f"docs/data/environments.toml: families are {', '.join(sorted(known))}")
    header = (
        "family",
        "names",
        "for example",
        "what it is",
        "[batched](../tutorials/your-environment.md#a-batched-environment)",
    )
    plug_ins = (
        "plug-ins",
        "the entry point's name",
        "",
        "[your own](../tutorials/your-environment.md)",
        "your choice",
    )
    rows = [
        (family, names, ", ".join(map(markdown.code, examples)), what, how)
        for family, names, examples, what, how in text.values()
    ]
    return markdown.table(header, [*rows, plug_ins])


def _actions() -> str:
    rows = []
    for kind in ACTIONS:
        fitting = ", ".join(markdown.code(spec.name) for spec in ALGORITHMS.ours() if kind in actions(spec))
        rows.append((kind, fitting, _WHERE[kind]))
    return markdown.table(("actions", "algorithms", "where"), rows)


def _extras(text: Mapping[str, str]) -> str:
    rows = []
    for extra, brought in requirements().items():
        names = ", ".join(markdown.code(re.split("[<>=]", requirement)[0]) for requirement in brought)
        targets = ", ".join(markdown.code(target) for target in installed_by(extra)) or "no target"
        rows.append((markdown.code(extra), names, text[extra], targets))
    return markdown.table(("extra", "brings", "environments", "installed by"), rows)


def _tasks(text: Mapping[str, Sequence[Any]]) -> str:
    rows = []
    for name in BUILT_IN:
        least, sees, reward = text[name]
        spec = registry.spec(EnvTask(name=name))
        agents = f"{len(spec.agents)} ({least})" if least else str(len(spec.agents))
        sides = ", ".join(side.name for side in sides_of(spec))
        choices = ", ".join(str(kind.actions) for kind in spec.classes)
        rows.append((markdown.code(name), agents, sides, choices, sees, reward))
    return markdown.table(("environment", "agents", "sides", "actions", "what agents see and do", "reward"), rows)


def _options(rows: Sequence[Sequence[Any]]) -> str:
    """One family's options, with the environments of each option if they differ."""
    header = ("`task.options.`", "of", "type", "default", "meaning")
    cells = [(markdown.code(name), ", ".join(map(markdown.code, of)), *rest) for name, of, *rest in rows]
    if len({of for _, of, *_ in cells}) > 1:
        return markdown.table(header, cells)
    return markdown.table((header[0], *header[2:]), [(name, *rest) for name, _, *rest in cells])


def _pettingzoo(text: Mapping[str, Sequence[Any]]) -> str:
    rows = [
        (markdown.code(name), str(agents), kind, markdown.code(extra)) for name, (agents, kind, extra) in text.items()
    ]
    return markdown.table(("name", "agents", "actions", "extra"), rows)
