"""docs/reference/rules.md: the rules that decide during training, by configuration key."""

from collections.abc import Mapping

from marless.coordinator.config.config_keys import RULES
from scripts.reference import markdown

_ABOUT = """\
The [controller](../explanation/controller.md) decides by these rules. They are listed by configuration key.
"The paper" is *Multi-Agent Reinforcement Learning with Serverless Computing* (SoCC '25). If the paper contradicts
itself, there is a rule for each reading. Bounds and thresholds are settings of the same table: see
[configuration](configuration.md#trend). Other packages can add rules by entry points: see
[plug-ins](../how-to/plug-in.md#a-rule)."""
QUESTIONS: Mapping[str, str] = {
    "trend.rule": "Do returns decline?",
    "sharing.rule": "Which agents share a network?",
    "sharing.distance": "How differently do two agents act?",
    "sharing.grouping": "Which agents form a group?",
    "sharing.base": "Which weights does a new group start from?",
    "scaling.rule": "How many rollouts does the next round sample?",
    "placement.rule": "Over how many functions is a round spread?",
    "league.rule": "Which checkpoints of the run are opponents?",
}


def page() -> str:
    """The whole page."""
    text, parts = markdown.data("rules.toml"), [_ABOUT]
    for key, family in RULES.items():
        details = text.get(key, {})
        if surplus := details.keys() - {*family.built_in}:
            raise KeyError(f"docs/data/rules.toml: {key} cannot be {', '.join(sorted(surplus))}")
        rows = [(markdown.code(name), family.summary(name), details.get(name, "")) for name in family.built_in]
        parts += [f"## {key}", QUESTIONS[key], markdown.table(("rule", "in a line", "in detail"), rows)]
    return markdown.page("Rules", "`docs/data/rules.toml` or the registries in `coordinator`", parts)
