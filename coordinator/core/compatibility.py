"""Incompatibilities of a configuration with its task, known once a function has described the task."""

from marless.coordinator.config.schema import MOST_MB, RunConfig
from marless.coordinator.core import league_matches, memory_bound, opponents, sides
from marless.coordinator.core.memory_bound import Footprint
from marless.coordinator.core.opponents import FixedOpponents
from marless.coordinator.core.planning.next_placement import rollout_bytes
from marless.coordinator.placement.placement_rules import PLACEMENTS
from marless.coordinator.platform import Platform
from marless.coordinator.rules import similarity
from marless.coordinator.rules.sharing import SHARING_MODES, invalid_groups
from marless.functions.environments.base import EnvSpec

# An actor holds a trajectory, a copy and the stored object: 3.0 times its size, measured.
_MEMORY_FACTOR = 3
HERE = Platform()


def incompatibility(
    config: RunConfig, spec: EnvSpec, opponent_policies: FixedOpponents | None = None, platform: Platform = HERE
) -> str:
    """Return the reason why the run is impossible on the `platform` and the setting that helps, or ''."""
    if problem := sides.incompatibility(spec, config.evaluation.side) or opponents.incompatibility(
        config, spec, opponent_policies
    ):
        return problem
    if problem := league_matches.incompatibility(config, spec):
        return problem
    if problem := invalid_groups(spec.agents, sides.classes_by_side(spec), config.sharing.groups or ()):
        return f"sharing.groups: {problem}"
    if problem := _fragments(config, spec):
        return f"actors.rollout_length: {config.actors.rollout_length} steps are less than an episode{problem}"
    if problem := config.algorithm.incompatibility(config.actors.rollout_length or spec.horizon):
        return f"algorithm.{problem}"
    if problem := _too_large(config, spec) or _too_small(config, spec, opponent_policies, platform):
        return problem
    return _incomparable(config.sharing.distance, spec) if SHARING_MODES[config.sharing.rule].switches else ""


def _fragments(config: RunConfig, spec: EnvSpec) -> str:
    if (config.actors.rollout_length or spec.horizon) >= spec.horizon or config.offline.dataset is not None:
        return ""
    whole = f"set at least {spec.horizon:,}"
    if config.league.rule != "none":
        return f", and a league's opponents change from round to round; {whole}"
    if getattr(config.algorithm, "recurrent", False):
        return f", and recurrent networks learn from whole ones; {whole}, or algorithm.recurrent=false"
    return ""


def _too_large(config: RunConfig, spec: EnvSpec) -> str:
    num_envs, steps = config.actors.num_envs, config.actors.rollout_length or spec.horizon
    memory_mb = config.functions.actor.memory_mb
    rollouts = config.rollouts_of_task
    needed_mb = (
        _MEMORY_FACTOR * rollouts * rollout_bytes(spec, num_envs * steps, num_envs * -(-steps // spec.horizon)) / 2**20
    )
    # In `whole` the learner plays, and its trajectories are never stored.
    if needed_mb <= memory_mb or PLACEMENTS[config.placement.rule].one_function:
        return ""
    most = int(num_envs * memory_mb / needed_mb)
    shorter = "not one fits: shorten episodes (such as task.options.max_cycles), or shrink what agents see"
    advice = f"set at most {most:,}" if most else shorter
    return (
        f"actors.num_envs: to play and store {rollouts * num_envs:,} copies of {steps} steps an actor needs"
        f" {needed_mb:,.0f} MB, and functions.actor.memory_mb is {memory_mb:,}; {advice}"
    )


def _too_small(config: RunConfig, spec: EnvSpec, opponent_policies: FixedOpponents | None, platform: Platform) -> str:
    team = opponents.initial_team(config, spec, opponent_policies)
    try:
        policies = memory_bound.player(config, spec, team)
        learner = memory_bound.learner(config, spec, team, platform)
    except ValueError as error:
        return str(error)
    footprints = {"a learner": learner, "an actor": policies, "an evaluator": policies}
    if PLACEMENTS[config.placement.rule].one_function:
        del footprints["an actor"]  # none plays
    return next(filter(None, (_lack(config, who, least) for who, least in footprints.items())), "")


def _lack(config: RunConfig, who: str, footprint: Footprint) -> str:
    name = who.split()[1]
    memory_mb = getattr(config.functions, name).memory_mb
    if footprint.megabytes <= memory_mb:
        return ""
    data_text = f" and {footprint.data / 2**20:,.0f} for what they learn from" if footprint.data else ""
    more = f"set well over {footprint.megabytes:,}, or" if footprint.megabytes < MOST_MB else "none can have so much:"
    smaller = "shrink the networks (such as algorithm.hidden) or what agents see"
    if footprint.data > footprint.networks:
        less = "algorithm.buffer_size" if config.algorithm.replayed_steps else "actors.num_envs"
        smaller = f"learn from less ({less}), or shrink what agents see"
    return (
        f"functions.{name}.memory_mb: {who} needs over {footprint.networks / 2**20:,.0f} MB for networks{data_text},"
        f" and it is {memory_mb:,}; {more} {smaller}"
    )


def _incomparable(distance: str, spec: EnvSpec) -> str:
    acting, needs = {kind.continuous for kind in spec.classes}, similarity.DISTANCES[distance].needs
    # This distance compares observations and actions of either kind.
    both = "kde-kl" if len(acting) > 1 else ""
    if needs == "behaviour" and True in acting:
        instead = both or "hellinger or w2"
        return f"sharing.distance: {distance} compares choices, and some agents act in numbers; use {instead}"
    if needs == "gaussian" and False in acting:
        return f"sharing.distance: {distance} compares numbers, and some agents choose; use {both or 'jsd'}"
    return ""
