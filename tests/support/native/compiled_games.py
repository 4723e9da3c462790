"""Tasks of compiled games, for the tests that hold for all games."""

import numpy as np

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask

# Episodes are short, so that a few steps have several ends.
TASKS = {
    "battle": EnvTask(name="smax/3m", options={"max_steps": 12}),
    "battle, drawn": EnvTask(
        name="smax/smacv2_5_units", options={"max_steps": 9, "observation_type": "conic", "attack_mode": "random"}
    ),
    "battle, earlier": EnvTask(
        name="smax/5m_vs_6m", options={"max_steps": 30, "earlier_rules": True, "map_width": 12, "map_height": 5}
    ),
    "foraging": EnvTask(name="lbf/8x8-3p-3f", options={"horizon": 12}),
    "foraging, grids": EnvTask(name="lbf/grid-2s-5x6-4p-2f-coop", options={"horizon": 9, "penalty": 0.1}),
    "warehouse": EnvTask(name="rware/tiny-4ag", options={"horizon": 12, "reward_type": "two_stage"}),
    "warehouse, images": EnvTask(
        name="rware/tiny-6ag-easy",
        options={
            "horizon": 9,
            "observation_type": "image_dict",
            "sensor_range": 2,
            "msg_bits": 1,
            "joint_actions": True,
        },
    ),
    "kitchen": EnvTask(name="overcooked/cramped_room", options={"horizon": 12}),
    "kitchen, drawn": EnvTask(name="overcooked/coordination_ring", options={"horizon": 12, "observation": "image"}),
}


def made(task, num_envs):
    return registry.make(task, num_envs)


def random_actions(environment, seen, rng):
    (kind,) = environment.spec.classes
    shares = rng.random((environment.num_envs, len(kind.agents), kind.actions))
    return ((shares * (1 if seen.masks is None else seen.masks[0])).argmax(axis=2),)


def played(environment, seen, rng, steps):
    pairs = []
    for _ in range(steps):
        actions = random_actions(environment, seen, rng)
        step = environment.step(actions)
        pairs.append((actions, step))
        seen = step.observation
    return pairs


def rows(step, which):
    """All arrays of some environments after a step, as bytes."""
    seen = step.observation
    arrays = [*seen.values, seen.alive, *(seen.masks or ()), step.rewards, step.terminated, step.truncated, step.ended]
    arrays += [] if seen.state is None else [seen.state]
    return [np.ascontiguousarray(array[which]).tobytes() for array in arrays]
