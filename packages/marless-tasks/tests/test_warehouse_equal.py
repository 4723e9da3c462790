"""Our warehouse equals the package `rware` step by step, if the package draws our random numbers.

The one exception is counted: two equally long queues want one cell, and the package follows the order of a set.
"""

from collections import Counter

import numpy as np
import pytest
from counted_draws import WarehouseGenerator
from warehouse_policies import FORWARD, delivering, driving, random

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless_tasks.tuple_environment import registered_environment

rware = pytest.importorskip("rware.warehouse")
networkx = pytest.importorskip("networkx")

CROWD = {"layout": "......\n.xx.x.\n.xx.x.\n......\n..gg..", "request_queue_size": 3, "horizon": 80}
TASKS = [
    ("rware/tiny-2ag", {}),
    ("rware/tiny-4ag-hard", {"reward_type": "two_stage", "msg_bits": 2}),
    ("rware/small-4ag-easy", {"sensor_range": 2, "normalised_coordinates": True, "reward_type": "global"}),
    ("rware/tiny-6ag", {"observation_type": "image"}),
    ("rware/tiny-3ag", {"observation_type": "image_dict", "image_observation_directional": False, "sensor_range": 2}),
    ("rware/tiny-2ag", {"observation_type": "dict", "msg_bits": 1, "normalised_coordinates": True}),
    ("rware/tiny-2ag", {"shelf_rows": 2, "shelf_columns": 5, "column_height": 3, "max_inactivity_steps": 30}),
    ("rware/tiny-12ag", CROWD),
]


def package_of(task, options):
    """A warehouse of the package with the options of ours."""
    creator, numbers = registered_environment(task, "rware", "rware-{}-v2", "")
    numbers = numbers | options
    numbers["max_steps"] = numbers.pop("horizon", 500)
    for key, kind in (("reward_type", rware.RewardType), ("observation_type", rware.ObservationType)):
        if key in options:
            numbers[key] = kind[options[key].upper()]
    return creator(**numbers)


def flat(house, observations):
    """The package's observations as rows of numbers, an image first."""
    from gymnasium.spaces import flatten

    rows = []
    for space, shown in zip(house.observation_space, observations, strict=True):
        if isinstance(shown, dict) and "image" in shown:
            rows.append(np.concatenate([shown["image"].ravel(), shown["features"]]))
        else:
            rows.append(flatten(space, shown) if isinstance(shown, dict) else shown.ravel())
    return np.array(rows, np.float32)


def restarted(house, environment, row):
    """The first observations of an episode with the same draws."""
    house._np_random = WarehouseGenerator(environment.arrays["keys"][row], environment.arrays["episode"][row])
    return flat(house, house.reset()[0])


def queues(house, moves):
    """The cells that robots want, as a graph, and those components that end in an empty cell."""
    graph = networkx.DiGraph()
    for robot, move in zip(house.agents, moves, strict=True):
        robot.req_action = rware.Action(move)
        start, (x, y) = (robot.x, robot.y), robot.req_location(house.grid_size)
        other = house.grid[0, y, x]
        is_carried = other and house.agents[other - 1].carrying_shelf
        stops = robot.carrying_shelf and start != (x, y) and house.grid[1, y, x] and not is_carried
        graph.add_edge(start, start if stops else (x, y))
    components = [graph.subgraph(nodes) for nodes in networkx.weakly_connected_components(graph)]
    return graph, [part for part in components if networkx.is_directed_acyclic_graph(part)]


def has_tie(queue):
    """Return True if two equally long parts of a queue meet on its longest path."""
    behind = {}
    for node in networkx.topological_sort(queue):
        behind[node] = max((behind[other] + 1 for other in queue.predecessors(node)), default=0)
    (node,) = (one for one in queue if not queue.out_degree(one))
    while others := [*queue.predecessors(node)]:
        longest = [other for other in others if behind[other] == behind[node] - 1]
        if len(longest) > 1:
            return True
        (node,) = longest
    return False


def take_over(environment, row, house):
    columns, arrays = house.grid_size[1], {name: array[row] for name, array in environment.arrays.items()}
    for number, robot in enumerate(house.agents):
        message = int("".join(str(int(bit)) for bit in robot.message) or "0", 2)
        shelf = robot.carrying_shelf.id if robot.carrying_shelf else 0
        cell = robot.y * columns + robot.x
        arrays["robots"][number] = cell, robot.dir.value, shelf, robot.has_delivered, message
    arrays["robot_at"][:], arrays["shelf_at"][:] = house.grid
    arrays["requested"][:] = 0
    arrays["requested"][[shelf.id for shelf in house.request_queue]] = 1
    environment.arrays["idle"][row] = house._cur_inactive_steps


def compare(task, options, policy, num_envs, steps, seed=0):
    """Plays both, and counts events. Raises `AssertionError` where they differ."""
    environment = registry.make(EnvTask(name=task, options=options), num_envs)
    observation, rng, counts = (
        environment.reset(np.random.default_rng(seed)),
        np.random.default_rng(seed + 1),
        Counter(),
    )
    houses = [package_of(task, options) for _ in range(num_envs)]
    for row, house in enumerate(houses):
        assert np.array_equal(observation.values[0][row], restarted(house, environment, row))
    for _ in range(steps):
        moves = np.array([policy(house, rng) for house in houses])
        bits = rng.integers(2, size=(*moves.shape, options.get("msg_bits", 0)))
        actions = np.concatenate([moves[..., None], bits], axis=-1) if bits.size else moves
        before = {name: environment.arrays[name].copy() for name in ("keys", "episode", "clock")}
        step = environment.step((actions,))
        for row, house in enumerate(houses):
            house._np_random = WarehouseGenerator(
                *(before[name][row] for name in ("keys", "episode")), _clock(before, row)
            )
            _compare_row(environment, step, row, house, moves[row].tolist(), actions[row].tolist(), counts)
    return counts + Counter(steps=num_envs * steps)


def _clock(before, row):
    return int(before["clock"][row]) + 1


def _compare_row(environment, step, row, house, moves, actions, counts):
    graph, open_queues = queues(house, moves)
    ties = [len(queue) * 2 < len(graph) for queue in open_queues if has_tie(queue)]
    counts["blocked moves"] += moves.count(FORWARD)
    expected, rewards, ended, *_ = house.step(actions)
    counts["blocked moves"] -= sum(robot.req_action is rware.Action.FORWARD for robot in house.agents)
    counts["deliveries"] += sum(rewards) > 0
    counts["ties"] += len(ties)
    assert step.ended[row] == step.truncated[row] == ended and not step.terminated[row].any()
    shown = (step.final if ended else step.observation).values[0][row]
    cells = [robot.y * house.grid_size[1] + robot.x for robot in house.agents]
    is_equal = step.rewards[row].tolist() == rewards and np.array_equal(shown, flat(house, expected))
    if not is_equal or not (ended or environment.arrays["robots"][row, :, 0].tolist() == cells):
        # Only the order of a set may decide otherwise.
        assert any(ties)
        counts["ties decided otherwise"] += 1
        if not ended:
            take_over(environment, row, house)
    if ended:
        counts["episodes"] += 1
        assert np.array_equal(step.observation.values[0][row], restarted(house, environment, row))


@pytest.mark.parametrize("policy", [random, driving, delivering])
@pytest.mark.parametrize(("task", "options"), TASKS, ids=[f"{task} {len(options)}" for task, options in TASKS])
def test_every_step_equals_the_packages(task, options, policy):
    counts = compare(task, {"horizon": 60} | options, policy, num_envs=2, steps=170)
    assert counts["episodes"] >= 4
    assert counts["deliveries"] or policy is not delivering
    assert counts["blocked moves"] or policy is not driving
