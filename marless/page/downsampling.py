"""Fewer points for the same picture of a curve."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def largest_triangles(x: Sequence[float], y: Sequence[float], most: int) -> NDArray[np.int64]:
    """Positions of at most `most` points, at least 3, that keep the look of the curve. x ascends.

    Largest-Triangle-Three-Buckets (Steinarsson, "Downsampling Time Series for Visual Representation", MSc thesis,
    University of Iceland, 2013). The first and the last point stay. Each bucket between them keeps the point that spans
    the largest triangle with the point kept before it and the mean of the next bucket.
    """
    count = len(x)
    if count <= most:
        return np.arange(count)
    xs, ys = np.asarray(x, np.float64), np.asarray(y, np.float64)
    edges = np.linspace(1, count - 1, most - 1).astype(np.int64)
    indices = [0]
    for bucket in range(most - 2):
        here = slice(edges[bucket], edges[bucket + 1])
        following = slice(edges[bucket + 1], edges[bucket + 2] if bucket + 2 < len(edges) else count)
        mean_x, mean_y = xs[following].mean(), ys[following].mean()
        last = indices[-1]
        twice_area = np.abs((xs[last] - mean_x) * (ys[here] - ys[last]) - (xs[last] - xs[here]) * (mean_y - ys[last]))
        indices.append(int(edges[bucket] + np.argmax(twice_area)))
    return np.array([*indices, count - 1])
