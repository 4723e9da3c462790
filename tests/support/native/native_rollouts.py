"""Rollouts of the Multi-Particle tasks by kernels, with weights that depend on no library of the machine."""

import hashlib

import numpy as np

from marless.functions.actor.rollout import collect
from marless.functions.environments.base import EnvTask
from marless.functions.environments.registry import make
from marless.functions.environments.task_names import ENVIRONMENTS, EXACT_PHYSICS
from marless.functions.messages.team import Team
from marless.functions.nn import recurrent
from marless.functions.nn.layers import LayerNorm, Relu
from marless.functions.nn.normaliser import SEEN
from marless.functions.nn.shape import Network
from marless.functions.policies import Policy

MPE = sorted(name for name in ENVIRONMENTS if name.startswith("mpe/"))
NUM_ENVS = 20


def rollout(name, kernels=True):
    """A rollout of a task. The policies of some classes have norms, relu and normalised observations."""
    environment = make(EnvTask(name=name, options={"max_cycles": 12, EXACT_PHYSICS: True}), NUM_ENVS)
    spec, tensors = environment.spec, {}
    team = Team(groups=tuple(range(len(spec.agents))), identity=True, kernels=kernels)
    rng = np.random.default_rng(1)
    for number, kind in enumerate(spec.classes):
        sizes = (kind.observation_size + len(spec.agents), 33, 16, kind.actions)
        variant = {"activation": Relu, "norm": LayerNorm} if (number + len(spec.agents)) % 2 else {}
        network = Network(sizes, **variant)
        for agent in kind.agents:
            flat = rng.random(network.parameters, np.float32) - np.float32(0.5)
            prefix = f"policy/g{agent:02d}"
            tensors |= recurrent.to_tensors(network, flat, prefix)
            if variant:
                seen = [np.full(kind.observation_size, 10.0), *rng.random((2, kind.observation_size))]
                tensors[f"{prefix}/{SEEN}"] = np.stack(seen)
    return collect(environment, Policy(spec, team, tensors), 12, seed=1, round_=1, rollout=0)


def digest(played):
    """The first digits of a hash of all that a rollout holds."""
    hashed = hashlib.sha256()
    for name, array in sorted(played.tensors.items()):
        hashed.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return hashed.hexdigest()[:16]
