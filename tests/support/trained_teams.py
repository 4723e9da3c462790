"""Small teams trained in this process: one task of many rounds, and the policies that it returns."""

import msgspec
import numpy as np
from simulated import MemoryStorage
from task_fields import make_task

from marless.functions import codec
from marless.functions.algorithms import registry as algorithms
from marless.functions.environments import registry
from marless.functions.learner.handler import handle as learn
from marless.functions.messages.exchange import Answer, Done
from marless.functions.messages.learner import InitialiseTask, WholeTask
from marless.functions.messages.team import Team
from marless.functions.policies import Policy


def trained_policy(*args, **kwargs):
    """The policies that an algorithm learns on a task in some rounds. No agents share networks. See `train`."""
    return train(*args, **kwargs)[0]


def train(task, name, settings, rounds, num_envs=32, rollouts=1, steps=None, seed=0, identity=False):
    algorithm = algorithms.algorithm(name)
    spec, storage = registry.spec(task), MemoryStorage()
    config = algorithms.configuration(algorithm, settings).resolved(spec)
    steps = steps or spec.horizon
    common = {
        "run": f"{name} {seed}", "round": 0, "timeout_s": 9.0, "seed": seed, "spec": spec, "algorithm": name,
        "hyperparameters": settings, "team": Team(groups=tuple(range(len(spec.agents))), identity=identity),
    }  # fmt: skip
    initialised = invoke_learner(make_task(InitialiseTask, id="i", output="i", **common), storage)
    behaviours = tuple(config.behaviour(round_ * rollouts * num_envs * steps) for round_ in range(rounds))
    whole = make_task(WholeTask,
        id="w", output="w", environment=task, rollouts=tuple(range(rollouts)), num_envs=num_envs, rollout_length=steps,
        behaviours=behaviours, state=tuple(initialised.objects.values()), updates=config.updates_per_round,
        replayed_steps=config.replayed_steps, **common,
    )  # fmt: skip
    tensors = {
        kind: codec.decode(storage[ref.key], ref.key) for kind, ref in invoke_learner(whole, storage).objects.items()
    }
    return Policy(spec, common["team"], tensors["policies"]), tensors["learner"]


def invoke_learner(task, storage):
    answer = msgspec.json.decode(learn(msgspec.json.encode(task), storage), type=Answer)
    assert isinstance(answer, Done), answer
    return answer


def returned(task, policy):
    """The return of one greedy episode, summed over agents. For deterministic tasks."""
    environment = registry.make(task, 1)
    seen, total = environment.reset(np.random.default_rng(0)), 0.0
    for _ in range(environment.spec.horizon):
        step = environment.step(policy.act(seen, None)[0].env_actions)
        seen, total = step.observation, total + float(step.rewards.sum())
        if step.ended.all():
            break
    return total
