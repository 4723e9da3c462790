"""marless check: shows how a run would understand an environment, tries it, and prints the command that trains."""

import shlex
import textwrap
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from msgspec import to_builtins
from msgspec.structs import replace

from marless.cli import arguments as common
from marless.cli.mistakes import setting_of
from marless.coordinator.config.loading import explicit_keys, load, load_with_origins
from marless.coordinator.config.nested_tables import flatten
from marless.coordinator.config.schema import ConfigError, RunConfig
from marless.coordinator.config.toml_dump import toml_value
from marless.coordinator.core.compatibility import incompatibility
from marless.coordinator.core.opponents import initial_team
from marless.coordinator.errors import UserError, one_line
from marless.functions.algorithms import registry
from marless.functions.environments.base import EnvironmentFault, EnvSpec, EnvTask, Unsupported
from marless.functions.environments.language_task_names import is_language_task
from marless.functions.environments.native_spaces import require_fitting
from marless.functions.environments.pettingzoo.adapter import PettingZooEnvironment
from marless.functions.environments.pettingzoo.horizon import NoHorizon
from marless.functions.environments.registry import innermost, make
from marless.functions.errors import BadRequest
from marless.functions.isolation.process_guard import ProcessGuard
from marless.output import say, say_text
from marless.program import program_name
from marless.reports.text import counted, seconds, table
from marless.testing.environment_trial import Trial, hold
from marless.views.environment_rows import spec_rows, trial_rows

EXAMPLES = """examples:
  marless check mpe/simple_spread
  marless check my_module:make task.options.horizon=60
  marless check my_run.toml"""

# Settings that are always shown.
_MAIN_KEYS = (
    "algorithm.name", "algorithm.lr", "algorithm.gamma", "algorithm.reward", "sharing.rule", "actors.num_envs",
    "stop.rounds", "evaluation.episodes", "evaluation.final_episodes",
)  # fmt: skip
_PAGE, _ENGINES = "docs/reference/algorithms.md", "measured: docs/results/engines.md"
# Reasons, each with its source. By the layer of defaults that set the value.
_WHY = {
    "": f"the general default ({_PAGE})",
    "command line": "you set it",
    "equal agents": "agents with equal spaces share their experience (Yu et al. 2022)",
    "family of other tasks": f"environments may be stepped one after another (measured: {_PAGE})",
    "algorithm.engine=auto": f"the fastest on this machine ({_ENGINES})",
    "algorithm.engine=native": f"the same bytes on every machine ({_ENGINES})",
}
_SHARE = "a share of the training's steps (docs/how-to/slow-environments.md#shorten-evaluations)"
# By key: consequences of the environment, and of the planned length of the run.
_FOLLOWS = {
    "algorithm.gamma": f"looks ahead 40 % of the longest episode, 33 to 100 steps (measured: {_PAGE})",
    "algorithm.num_minibatches": f"one for 200 steps of a rollout, 8 to 64 (measured: {_PAGE})",
    "algorithm.lr": f"lower from six agents on, which move each other's targets (measured: {_PAGE})",
    "evaluation.episodes": _SHARE,
    "evaluation.final_episodes": _SHARE,
}
# The limit of an episode while its usual length is unknown.
_PROBE_STEPS = 10_000
# Of a terminal, and of the first column in it.
_WIDTH, _NAME_WIDTH = 80, 12
_UNSTATED = "stated nowhere, so this check takes"
_MADE = (BadRequest, EnvironmentFault, Unsupported)


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "settings",
        nargs="*",
        metavar="ENV | FILE.toml | key=value",
        help="an environment like in task.name, a configuration file, and settings that override it",
    )


def run(options: Namespace) -> int:
    """Print the description, then warnings, then the command that trains. Raise `UserError` for a fault."""
    file, settings = common.split([_as_setting(text) for text in options.settings])
    config, origins = load_with_origins(file, settings)
    name, source = config.task.name, None
    with ProcessGuard(name) as guard:
        if length := _missing_length(config.task):
            settings.append(f"task.options.horizon={length.steps}")
            config, origins = load_with_origins(file, settings)
            source = length.source
        subject = _subject(config, source)
        trial = _tried(subject, config)
    if trial.fault:
        _show(name, spec_rows(subject.spec, subject.horizon_source))
        say("")
        raise UserError(trial.fault)
    _show(name, [*_rows(config, subject, trial), ("learned by", _algorithms(file, settings, subject.spec))])
    say("", f"A run would use these settings (`{program_name()} config` explains them):", "")
    resolved, reasons = _decided(config, subject.spec, origins)
    values = flatten(to_builtins(resolved))
    say_text(table(("setting", "value", "why"), [(key, toml_value(values[key]), reasons[key]) for key in reasons]))
    say("")
    for text in (*_warnings(config, subject, trial), *guard.remarks()):
        say(*textwrap.wrap(f"warning: {text}", _WIDTH, subsequent_indent="  ", break_long_words=False), "")
    if problem := _refusal(config, subject.spec):
        raise UserError(problem)
    say(f"{program_name()} train {shlex.join([*([str(file)] if file else []), *settings])}")
    return 0


def _as_setting(text: str) -> str:
    """Return the setting for the name of an environment. ``my_module.py`` is a PettingZoo environment."""
    if "=" in text or text.endswith(".toml"):
        return text
    module = text.removesuffix(".py")
    return setting_of(text) or f"task.name={'pettingzoo:' * (module != text)}{module}"


class _Length(NamedTuple):
    steps: int
    source: str


def _missing_length(task: EnvTask) -> _Length | None:
    if is_language_task(task.name):
        raise UserError(f"{task.name}: its agents speak, and this command is for environments whose agents act")
    try:
        make(task, 1).close()
        return None
    except _MADE as error:
        if not isinstance(error.__cause__, NoHorizon):
            raise UserError(one_line(error)) from error
        message = one_line(error)
    trial = hold(make(replace(task, options={**task.options, "horizon": _PROBE_STEPS}), 1))
    if trial.fault:
        return _Length(_PROBE_STEPS, "")
    lengths = [length for length in trial.lengths if length < _PROBE_STEPS]  # the others were cut by this check
    if not lengths:
        raise UserError(f"{message}; no episode of random play ended in {trial.steps:,} steps")
    longest = max(lengths)
    if trial.truncated > len(trial.lengths) - len(lengths) or min(lengths) == longest:
        return _Length(longest, f"{_UNSTATED} the longest episode of random play")
    return _Length(2 * longest, f"{_UNSTATED} twice the longest episode of random play")


class _Subject(NamedTuple):
    task: EnvTask
    spec: EnvSpec
    horizon_source: str
    unread_mask: str
    # Environments that are stepped together. It is 1 if they are stepped one after another.
    copies: int


def _subject(config: RunConfig, source: str | None) -> _Subject:
    task = replace(config.task, judge="")
    with closing(make(task, 1)) as environment:
        inner = innermost(environment)
        if isinstance(inner, PettingZooEnvironment):
            source = inner.horizon_source if source is None else source
            return _Subject(task, environment.spec, source, inner.unread_mask, 1)
        return _Subject(task, environment.spec, "stated by the environment", "", config.actors.num_envs)


def _tried(subject: _Subject, config: RunConfig) -> Trial:
    try:
        require_fitting(subject.spec, config.task.last_action)
        return hold(make(subject.task, subject.copies), lambda: make(subject.task, subject.copies))
    except (*_MADE, ValueError) as error:
        return Trial(fault=one_line(error))


def _rows(config: RunConfig, subject: _Subject, trial: Trial) -> Iterator[tuple[str, str]]:
    yield from spec_rows(subject.spec, subject.horizon_source)
    yield from trial_rows(subject.spec, trial)
    together = f"{subject.copies} environments together" if subject.copies > 1 else "one environment"
    steps, needed = config.actors.rollout_length or subject.spec.horizon, _rollout_seconds(config, subject, trial)
    yield (
        "speed",
        f"{1000 * trial.seconds / trial.steps:.2g} ms for a step of {together} on this machine;"
        f" a rollout ({config.actors.num_envs} environments, {counted(steps, 'step')}) takes"
        f" {seconds(needed) if needed > 1 else f'{needed:.2g} s'}{_playing(config, needed)}",
    )


def _playing(config: RunConfig, rollout_s: float) -> str:
    total_s = rollout_s * config.actors.rollouts * (config.stop.rounds or 0)
    runs = f"{config.actors.rollouts * (config.stop.rounds or 0):,}"
    return f", and the {runs} rollouts of a run {seconds(total_s)} one after the other" if total_s > 60 else ""


def _show(title: str, rows: Iterable[tuple[str, str]]) -> None:
    say(title, "")
    for name, text in rows:
        lines = textwrap.wrap(text, _WIDTH - _NAME_WIDTH, break_long_words=False, break_on_hyphens=False)
        say(*(f"{'' if number else name:<{_NAME_WIDTH}}{line}" for number, line in enumerate(lines)))


def _algorithms(file: Path | None, settings: list[str], spec: EnvSpec) -> str:
    fitting = []
    for name in registry.names():
        with suppress(ConfigError):
            if not _refusal(load(file, [*settings, f"algorithm.name={name}"]), spec):
                fitting.append(name)
    return ", ".join(fitting) or "none with these settings"


def _refusal(config: RunConfig, spec: EnvSpec) -> str:
    if problem := incompatibility(config, spec):
        return problem
    team, part_bytes = initial_team(config, spec, None), registry.algorithm(config.algorithm.name).part_bytes
    try:
        if part_bytes:
            for group in team.learning:
                part_bytes(spec, team, config.algorithm.resolved(spec), group)
    except BadRequest as error:
        return f"algorithm.name={config.algorithm.name}: {error}"
    return ""


def explained(file: Path | None, settings: list[str]) -> tuple[RunConfig, dict[str, str]]:
    """Return a configuration as its environment decides, and by dotted key the reasons. Raise `UserError`."""
    config, origins = load_with_origins(file, settings)
    if length := _missing_length(config.task):
        config, origins = load_with_origins(file, [*settings, f"task.options.horizon={length.steps}"])
    return _decided(config, _subject(config, None).spec, origins)


def _decided(config: RunConfig, spec: EnvSpec, origins: Mapping[str, str]) -> tuple[RunConfig, dict[str, str]]:
    sizes = config.evaluation_sizes(spec.horizon)
    evaluation = replace(config.evaluation, episodes=sizes.episodes, final_episodes=sizes.final)
    algorithm = config.algorithm.sized(config.actors.num_envs * (config.actors.rollout_length or spec.horizon))
    resolved = replace(config, algorithm=algorithm.resolved(spec), evaluation=evaluation)
    unresolved, values = (flatten(to_builtins(version)) for version in (config, resolved))
    changed = {key for key, value in values.items() if value != unresolved[key]}
    reasons = {key: _why(origins.get(key, "")) for key in values}
    reasons |= {key: _FOLLOWS.get(key, f"follows from the environment ({_PAGE})") for key in changed}
    decided = {*_MAIN_KEYS, *changed, *(origins.keys() - {*explicit_keys(origins)})}
    return resolved, {key: reason for key, reason in reasons.items() if key in decided}


def _why(origin: str) -> str:
    kind, _, name = origin.partition(" ")
    texts = {
        "family": f"default for {name.removeprefix('pettingzoo:')} ({_PAGE}#by-family-of-environments)",
        "task": f"measured on {name} (docs/results/entities.md)",
        "algorithm": f"default with {name} ({_PAGE})",
    }
    return _WHY.get(origin) or texts.get(kind, origin)


def _warnings(config: RunConfig, subject: _Subject, trial: Trial) -> Iterator[str]:
    if trial.unseeded:
        yield (
            f"the environment does not follow its seed. With the same seed and actions, {trial.unseeded} was different"
            " in a new environment. Draw all random numbers from a generator that reset(seed=...) makes"
        )
    elif trial.leftover:
        yield (
            f"reset leaves something behind. With the same seed and actions, {trial.leftover} was different after"
            " earlier episodes. Set everything anew in reset, or set task.options.rebuild=true"
        )
    if subject.unread_mask:
        yield subject.unread_mask
    yield from filter(None, (trial.outside, trial.apart))
    if not trial.rewarded:
        yield f"no agent got a reward in {trial.steps:,} steps of random play"
    if trial.rewarded and trial.zero_sum and not subject.spec.sides and len(subject.spec.agents) > 1:
        yield "the rewards of all agents sum to 0 in every step. If agents compete, set task.options.sides"
    elif config.task.name.startswith("pettingzoo:"):
        yield from _kinds_of_agents(subject.spec)
    yield from _slowness(config, subject, trial)


def _kinds_of_agents(spec: EnvSpec) -> Iterator[str]:
    """Yield a warning if agents have several kinds of names, such as adversary_0 and agent_0, and are one team."""
    kinds = list(dict.fromkeys(name.rstrip("0123456789").rstrip("_-") for name in spec.agents))
    if not spec.sides and 1 < len(kinds) < len(spec.agents):
        yield f"{' and '.join(kinds)} are one team. If they compete, set task.options.sides={','.join(kinds)}"


def _slowness(config: RunConfig, subject: _Subject, trial: Trial) -> Iterator[str]:
    copies, limit = config.actors.num_envs, config.functions.actor.timeout_s
    if (needed := _rollout_seconds(config, subject, trial)) > limit:
        yield (
            f"a rollout takes {needed:,.0f} s, and functions.actor.timeout_s is {limit:g}: set"
            f" actors.num_envs={max(1, int(copies * limit / needed / 2))}, or a longer time-out"
        )


def _rollout_seconds(config: RunConfig, subject: _Subject, trial: Trial) -> float:
    steps = config.actors.rollout_length or subject.spec.horizon
    return trial.seconds / trial.steps * steps * config.actors.num_envs / subject.copies
