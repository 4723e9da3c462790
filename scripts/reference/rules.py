"""docs/reference/rules.md: what can be decided during training, and by which rules."""

from collections.abc import Mapping
from typing import get_args

from coordinator.placement import rules as placement
from coordinator.rules import grouping, scaling, sharing, similarity, trend
from scripts.reference import markdown

_ABOUT = """\
The rules that the [controller](../explanation/controller.md) decides by, by configuration key. "The paper" is
*Multi-Agent Reinforcement Learning with Serverless Computing* (SoCC '25); where it contradicts itself both readings
are rules. Bounds and thresholds are settings of the same table, see [configuration](configuration.md#trend)."""

# Key, question, and the names that are registered.
RULES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "trend.rule": ("Does training go the wrong way?", tuple(trend.TRENDS)),
    "sharing.rule": ("Which agents share a network?", get_args(sharing.Rule)),
    "sharing.start": ("How does dynamic sharing begin?", get_args(sharing.Start)),
    "sharing.distance": ("How differently do two agents act?", tuple(similarity.DISTANCES)),
    "sharing.grouping": ("Who belongs together?", tuple(grouping.GROUPINGS)),
    "sharing.base": ("Which weights does a group go on from?", get_args(sharing.Base)),
    "scaling.rule": ("How many rollouts does the next round sample?", tuple(scaling.SCALING_RULES)),
    "placement.rule": ("Over how many functions is a round spread?", get_args(placement.Choice)),
}


def page() -> str:
    """The whole page."""
    text, parts = markdown.data("rules.toml"), [_ABOUT]
    for key, (question, names) in RULES.items():
        if surplus := text[key].keys() - {*names}:
            raise KeyError(f"docs/data/rules.toml: {key} cannot be {', '.join(sorted(surplus))}")
        rows = [(markdown.code(name), text[key][name]) for name in names]
        parts += [f"## {key}", question, markdown.table(("rule", "what it does"), rows)]
    return markdown.page("Rules", "`docs/data/rules.toml` or the registries in `coordinator/rules`", parts)
