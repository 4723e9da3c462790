"""Players of the package `rware`, which look at its warehouse."""

from collections import deque

import numpy as np

STAY, FORWARD, LEFT, RIGHT, TOGGLE = range(5)
# The package's directions: up, down, left and right, and their order clockwise.
STEPS = ((0, -1), (0, 1), (-1, 0), (1, 0))
CLOCKWISE = (0, 3, 1, 2)


def random(house, rng):
    return rng.integers(5, size=len(house.agents)).tolist()


def driving(house, rng):
    return rng.choice(5, p=[0.05, 0.65, 0.12, 0.12, 0.06], size=len(house.agents)).tolist()


def delivering(house, rng):
    """Robots bring requested shelves to a goal and back. One in ten does something else."""
    return [rng.integers(5) if rng.random() < 0.1 else _delivery(house, robot) for robot in house.agents]


def _delivery(house, robot):
    shelves, shelf = house.grid[1], robot.carrying_shelf
    if shelf is None:
        targets = {(one.x, one.y) for one in house.request_queue}
    elif shelf in house.request_queue:
        targets = {*house.goals}
    else:
        targets = {(x, y) for y, x in np.argwhere((house.highways == 0) & (shelves == 0))}
        if not house.highways[robot.y, robot.x]:
            return TOGGLE
    if (robot.x, robot.y) in targets:
        return TOGGLE if shelf is None else STAY
    heading = _first_step(robot, targets, shelves if shelf else np.zeros_like(shelves))
    if heading is None:
        return STAY
    turn = (CLOCKWISE.index(heading) - CLOCKWISE.index(robot.dir.value)) % 4
    return (FORWARD, RIGHT, RIGHT, LEFT)[turn]


def _first_step(robot, targets, walls):
    """The first direction of a shortest way around walls to a target, or None."""
    rows, columns = walls.shape
    start = robot.x, robot.y
    ways, queue = {start: None}, deque([start])
    while queue:
        x, y = queue.popleft()
        if (x, y) in targets:
            return ways[x, y]
        for heading, (right, down) in enumerate(STEPS):
            cell = x + right, y + down
            inside = 0 <= cell[0] < columns and 0 <= cell[1] < rows
            if inside and cell not in ways and not walls[cell[1], cell[0]]:
                ways[cell] = heading if (x, y) == start else ways[x, y]
                queue.append(cell)
    return None
