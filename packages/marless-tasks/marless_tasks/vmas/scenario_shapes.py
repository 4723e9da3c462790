"""A state of VMAS as shapes. Its own pictures need a window system or EGL."""

import math
from collections.abc import Iterator
from typing import Any

from marless.functions.environments.scene import Colour, Disc, Line, Scene, Shape


def draw(environment: Any, index: int) -> Scene:
    """Environment `index` of VMAS's `environment`: discs, and outlines of boxes, in the colours of the bodies."""
    half_width, half_height = _camera(environment, index)
    x_left, top = (
        environment.scenario.render_origin[0] - half_width,
        environment.scenario.render_origin[1] + half_height,
    )
    shapes: list[Shape] = []
    for entity in environment.world.entities:
        if bool(entity.is_rendering[index]):
            x, y = (float(part) for part in entity.state.pos[index])
            shapes += _body(entity.shape, x - x_left, top - y, float(entity.state.rot[index]), _colour(entity.color))
    return Scene(2 * half_width, 2 * half_height, tuple(shapes))


def _camera(environment: Any, index: int) -> tuple[float, float]:
    """Half the width and height of VMAS's picture: the scenario's zoom, or more if agents are further away."""
    scenario, agents = environment.scenario, environment.world.agents
    wide, high = scenario.viewer_size
    zoom, aspect = float(scenario.viewer_zoom), wide / high
    half = (zoom, zoom / aspect) if aspect < 1 else (zoom * aspect, zoom)
    margin = 2 * max(agent.shape.circumscribed_radius() for agent in agents)
    distances = [
        max(abs(float(agent.state.pos[index, axis]) - scenario.render_origin[axis]) for agent in agents) + margin
        for axis in range(2)
    ]
    away = max(1.0, *(distance / side for distance, side in zip(distances, half, strict=True)))
    return half[0] * away, half[1] * away


def _body(shape: Any, x: float, y: float, turn: float, colour: Colour) -> Iterator[Shape]:
    """A sphere as a disc, a box as its four sides, a line as itself. `turn` is counterclockwise in radians."""
    if hasattr(shape, "radius"):
        yield Disc(x, y, float(shape.radius), colour)
        return
    width = shape.width if hasattr(shape, "hollow") else 0.0
    corners = [
        _rotate(x, y, turn, across * shape.length / 2, up * width / 2)
        for across, up in ((-1, -1), (-1, 1), (1, 1), (1, -1))
    ]
    if not width:
        yield Line(*corners[0], *corners[2], colour)
        return
    for (x1, y1), (x2, y2) in zip(corners, corners[1:] + corners[:1], strict=True):
        yield Line(x1, y1, x2, y2, colour)


def _rotate(x: float, y: float, turn: float, across: float, up: float) -> tuple[float, float]:
    """The point `across` and `up` from (x, y), in a system that is turned. Y grows downwards."""
    return (
        x + across * math.cos(turn) - up * math.sin(turn),
        y - across * math.sin(turn) - up * math.cos(turn),
    )


def _colour(rgb: Any) -> Colour:
    red, green, blue = (float(part) for part in rgb[:3])
    return red, green, blue
