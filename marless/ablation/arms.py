"""The arms of an ablation: an arm is a name and settings that override the user's configuration.

The arm `marless` holds the rules that the MARLess paper describes ("Multi-Agent Reinforcement Learning with Serverless
Computing", SoCC 2025). If its text and figures differ, the modules of the rules name the reading. The paper has no
controls. The controls here are `packed` (all learners in one function, the same algorithm), and two for each set of
rules. They are scaling on its signal in random order, and its mean number of rollouts in every round.
"""

import difflib
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from marless.coordinator.config.loading import convert, override
from marless.coordinator.config.nested_tables import flatten, merge, nest
from marless.coordinator.config.schema import ConfigError, RunConfig
from marless.coordinator.placement.placement_rules import PLACEMENTS
from marless.coordinator.rules.scaling import SCALING_RULES
from marless.coordinator.rules.sharing import SHARING_MODES
from marless.studies.cells import Arm, Settings, Value

SHARING: dict[str, Settings] = {
    "none": {"sharing.rule": "none"},
    "all": {"sharing.rule": "all"},
    "paper": {
        "trend.rule": "paper",
        "trend.gamma": 0.1,
        "sharing.rule": "dynamic",
        "sharing.start": "apart",
        "sharing.distance": "kde-kl",
        "sharing.grouping": "kmeans",
        "sharing.cap": "figure",
        "sharing.base": "convexity",
        "sharing.trial": False,
    },
    "ours": {"sharing.rule": "dynamic"},
}
# The reading of the paper that gives its figure of function dollars. Sharing begins with the first full window, lasts,
# keeps two policies, and a shared learner does one member's work.
SHARING["paper-figure"] = {**SHARING["paper"], "sharing.rule": "lasting", "sharing.cap": 2, "sharing.rows": "member"}

# The rules of axes that are not varied.
_USUAL = {"sharing": "none", "scaling": "constant", "placement": "split"}
_SHUFFLED = "shuffled:"
# ``constant:10`` is the rule `constant` with ten rollouts, ``mean:gns`` with as many as `gns` has in the mean.
_FIXED = re.compile(r"constant:([1-9]\d*)")
_MEAN = "mean:"


def _rule_settings(sharing: str, scaling: str, placement: str) -> Settings:
    fixed_match = _FIXED.fullmatch(scaling)
    constant = fixed_match or scaling.startswith(_MEAN)
    return {
        **SHARING.get(sharing, {"sharing.rule": sharing}),
        "scaling.rule": "constant" if constant else scaling,
        **({"actors.rollouts": int(fixed_match[1])} if fixed_match else {}),
        "placement.rule": placement,
    }


ARMS = {
    arm.name: arm
    for arm in (
        Arm("marless-minus", "functions without sharing and scaling", _rule_settings("none", "constant", "split")),
        Arm("marless", "the paper's sharing and scaling", _rule_settings("paper", "paper", "split")),
        Arm("ours", "our sharing, scaling by gradient noise", _rule_settings("ours", "gns", "split")),
        Arm("ours-auto", "the same, with placement by cost", _rule_settings("ours", "gns", "auto")),
        Arm("packed", "control: all learners in one function", _rule_settings("none", "constant", "packed")),
        Arm(
            "shuffled",
            "control: the paper's scaling on a shuffled signal",
            _rule_settings("paper", "shuffled:paper", "split"),
            control_of="marless",
        ),
        Arm(
            "constant-mean",
            "control: the paper's sharing, its mean number of rollouts in every round",
            _rule_settings("paper", "constant", "split"),
            rollouts_of="marless",
            control_of="marless",
        ),
        Arm(
            "ours-shuffled",
            "control: our sharing, scaling on a shuffled signal",
            _rule_settings("ours", "shuffled:gns", "split"),
            control_of="ours",
        ),
        Arm(
            "ours-fixed",
            "control: one network per class, `ours`' mean number of rollouts in every round",
            _rule_settings("all", "constant", "split"),
            rollouts_of="ours",
            control_of="ours",
        ),
        Arm(
            "paper-figure",
            "the reading of the paper in which its figure of dollars appears",
            _rule_settings("paper-figure", "offset", "split"),
        ),
    )
}


def arms_by_name(names: Sequence[str]) -> list[Arm]:
    """Return the arms of these names, or combinations such as ``none+gns@split``. Raises `ConfigError` for an unknown
    name and for a name that is given twice."""
    arms = [_combination(name) or ARMS[_require_known(name, ARMS, "arm")] for name in names]
    if repeated_name := next((name for name in names if names.count(name) > 1), ""):
        raise ConfigError(f"the arm {repeated_name} is given twice")
    for arm in arms:
        if arm.rollouts_of and arm.rollouts_of not in names:
            raise ConfigError(
                f"arm {arm.name}: it takes its number of rollouts from the arm {arm.rollouts_of}, which must run too"
            )
    return arms


def combined_names(axes: Mapping[str, Any]) -> list[str]:
    """Return the name of every combination of the rules in `axes` (`sharing`, `scaling`, `placement`)."""
    if not any(axes[axis] for axis in _USUAL):
        return []
    products = itertools.product(*(axes[axis] or [usual] for axis, usual in _USUAL.items()))
    return [f"{a}+{b}@{c}" for a, b, c in products]


def combination(sharing: str, scaling: str, placement: str) -> Arm:
    """Return the arm ``sharing+scaling@placement``. Raises `ConfigError` for an unknown rule."""
    if sharing not in SHARING_MODES:
        _require_known(sharing, SHARING, "sharing")
    if not _FIXED.fullmatch(scaling):
        _require_known(scaling.removeprefix(_MEAN), SCALING_RULES, "scaling")
    _require_known(placement, PLACEMENTS, "placement")
    source = f"{sharing}+{scaling.removeprefix(_MEAN)}@{placement}" if scaling.startswith(_MEAN) else ""
    return Arm(
        f"{sharing}+{scaling}@{placement}",
        f"sharing {sharing}, scaling {scaling}, placement {placement}",
        _rule_settings(sharing, scaling, placement),
        rollouts_of=source,
        control_of=_tested_arm(sharing, scaling, placement),
    )


def _tested_arm(sharing: str, scaling: str, placement: str) -> str:
    """The combination that differs in the signals alone, or '' for one that is no control."""
    a, b = sharing.removeprefix(_SHUFFLED), scaling.removeprefix(_SHUFFLED).removeprefix(_MEAN)
    return f"{a}+{b}@{placement}" if (a, b) != (sharing, scaling) else ""


def controls(names: Iterable[str]) -> list[tuple[str, str]]:
    """(control, tested arm) for every control with a tested arm among `names`.

    An arm equals the combination with its settings: ``ours+shuffled:gns@split`` is a control of `ours`. Unknown names
    are ignored.
    """
    arms = [arm for arm in map(_find, names) if arm]
    pairs = []
    for arm in arms:
        tested_arm = _find(arm.control_of)
        same = [other.name for other in arms if tested_arm and other.settings == tested_arm.settings]
        pairs += [(arm.name, name) for name in same[:1]]
    return pairs


def _find(name: str) -> Arm | None:
    return _combination(name) or ARMS.get(name)


def _combination(name: str) -> Arm | None:
    rules, at, placement = name.partition("@")
    sharing, plus, scaling = rules.partition("+")
    return combination(sharing, scaling, placement) if at and plus else None


def configuration(arm: Arm, base: RunConfig, rollouts: int | None = None) -> RunConfig:
    """The user's configuration with the arm's settings. Raises `ConfigError` naming the arm if it is invalid."""
    return convert(merge(msgspec.to_builtins(base), nest(settings(arm, rollouts))), f"arm {arm.name}")


def settings(arm: Arm, rollouts: int | None = None) -> dict[str, Value]:
    """The arm's settings, with the constant number of `rollouts` computed for it, if any."""
    return dict(arm.settings) if rollouts is None else {**arm.settings, "actors.rollouts": rollouts}


def refuse_clashes(arms: Iterable[Arm], overrides: Iterable[str]) -> None:
    """Raises `ConfigError` when the user sets a key for all arms that an arm sets to another value."""
    for text in overrides:
        for key, value in flatten(override({}, [text])).items():
            if key == "seed":
                raise ConfigError(f"{text}: the seeds of an ablation are given by `seeds`")
            for arm in arms:
                if (arm_value := arm.settings.get(key, value)) != value:
                    raise ConfigError(f"{text} clashes with the arm {arm.name}, which sets {key} to {arm_value}")


def _require_known(name: str, choices: Mapping[str, Any], kind: str) -> str:
    if name in choices:
        return name
    nearest = difflib.get_close_matches(name, choices, n=1)
    hint = f"did you mean {nearest[0]}? " if nearest else ""
    raise ConfigError(f"there is no {kind} called {name!r}; {hint}there are {', '.join(choices)}")
