"""The state of groups that train differences to frozen networks, see `marless.functions.algorithms.adapters.descent`.

The part ``<network>_adapter`` holds a network's difference. Stages see the whole networks, made of the base and the
differences when a task begins. Stages store differences, and whole networks only of policies, which actors read.
"""

import numpy as np

from marless.functions.algorithms.adapters.descent import BASE, factors, merged
from marless.functions.algorithms.agent_inputs import members
from marless.functions.algorithms.specification import adapter_of
from marless.functions.algorithms.stage import Tensors, within
from marless.functions.algorithms.trainable import moments
from marless.functions.errors import BadRequest
from marless.functions.keys import group_name
from marless.functions.messages.team import Team
from marless.functions.nn.layers import Array
from marless.functions.nn.normaliser import SEEN
from marless.functions.randomness import generator


def frozen_networks(tensors: Tensors, base_team: Team, team: Team) -> dict[str, Array]:
    """The base's tensors for the team's groups, see `BASE`. Each group gets its first member's network.

    Raises `BadRequest` where the base has another number of agents.
    """
    base_agents, own_agents = len(base_team.groups), len(team.groups)
    if base_agents != own_agents:
        raise BadRequest(
            f"base.policies: that run has {base_agents} agents and this one {own_agents}; name a run of as many"
        )
    frozen: dict[str, Array] = {}
    for group in team.learning:
        origin = group_name(base_team.groups[members(team, group)[0]])
        for name, array in tensors.items():
            part, owner, *tensor = name.split("/", 2)
            if owner == origin:
                frozen["/".join((BASE, part, group_name(group), *tensor))] = array
    return frozen


def whole_networks(tensors: Tensors) -> dict[str, Array]:
    """Return the whole networks, by name, of all differences among the `tensors`."""
    base, whole = within(tensors, BASE), dict[str, Array]()
    for part, group in _places(base):
        if difference := within(tensors, f"{adapter_of(part)}/{group}"):
            network = merged(within(base, f"{part}/{group}"), difference)
            whole |= {f"{part}/{group}/{name}": array for name, array in network.items()}
    return whole


def without_whole_networks(outcome: Tensors, before: Tensors) -> dict[str, Array]:
    """The new tensors of stages, of whole networks the policies alone.

    Other tensors that a stage makes for a network, such as the statistics of its inputs, are part of its difference.
    """
    adapted = {name.partition("/")[0] for name in before}
    kept_tensors: dict[str, Array] = {}
    for name, array in outcome.items():
        part, _, rest = name.partition("/")
        if adapter_of(part) not in adapted or part == "policy":
            kept_tensors[name] = array
        if (key := f"{adapter_of(part)}/{rest}") in before:
            kept_tensors[key] = array
    return kept_tensors


def first_state(new: Tensors, frozen: Tensors, rank: int, seed: int) -> dict[str, Array]:
    """The state of round 0 of differences to the `frozen` networks. `new` would be the state without a base.

    Raises `BadRequest` where the state of the base has another form.
    """
    base, parts = within(frozen, BASE), {name.partition("/")[0] for name in new}
    _require_form({name: array for name, array in new.items() if "_optimiser/" not in name}, base)
    state = dict(base)
    for part, group in _places(base):
        if f"{part}_optimiser" in parts:
            network = within(base, f"{part}/{group}")
            difference = _first_difference(network, rank, generator(seed, "adapter", part, group))
            state |= {f"{adapter_of(part)}/{group}/{name}": array for name, array in difference.items()}
            trained = sum(array.size for name, array in difference.items() if name != SEEN)
            state |= moments(f"{part}_optimiser/{group}", trained)
    return state


def _places(base: Tensors) -> list[tuple[str, str]]:
    return sorted({(part, group) for part, group, *_ in (name.split("/") for name in base)})


def _first_difference(network: Tensors, rank: int, rng: np.random.Generator) -> dict[str, Array]:
    """A difference of zero: A ~ N(0, 1 / in), B = 0, and tensors that are no matrices unchanged."""
    difference: dict[str, Array] = {}
    for name in sorted(network):
        array = network[name]
        if array.ndim != 2 or name == SEEN:
            difference[name] = array
            continue
        inputs, outputs = array.shape
        width, (a, b) = min(rank, inputs, outputs), factors(name)
        difference[a] = (rng.standard_normal((inputs, width)) / np.sqrt(inputs)).astype(array.dtype)
        difference[b] = np.zeros((width, outputs), array.dtype)
    return difference


def _require_form(new: Tensors, base: Tensors) -> None:
    for name in sorted({*new, *base}):
        shapes = [list(tensors[name].shape) if name in tensors else None for tensors in (new, base)]
        if shapes[0] != shapes[1]:
            form, base_form = ("nothing" if shape is None else str(shape) for shape in shapes)
            raise BadRequest(
                f"base.policies: {name} is {base_form} in that run and {form} in this one; name a run of the same"
                " spaces, networks and algorithm, and set sharing.identity as it has it"
            )
