import struct

import pytest

from marless.functions.errors import MissingExtra
from marless.reports.learning_curve import CurvePoint, draw
from marless.reports.statistics import summary


def a_run(rounds):
    return [
        CurvePoint(
            steps=1000 * number,
            seconds=0.5 * number,
            dollars=1e-5 * number,
            sampled_return=-80.0 + number,
            evaluation=summary([-81.0 + number, -79.0 + number]) if number % 2 else None,
        )
        for number in range(1, rounds + 1)
    ]


def two_sides(rounds):
    return [
        CurvePoint(
            steps=1000 * number,
            seconds=0.5 * number,
            dollars=1e-5 * number,
            sampled_return=0.0,
            sampled_sides={"adversary": -5.0 + number, "agent": 5.0 - number},
            evaluated_sides={"adversary": -4.0 + number, "agent": 4.0 - number} if number % 2 else {},
        )
        for number in range(1, rounds + 1)
    ]


def size_of(png):
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", png[16:24])


@pytest.mark.parametrize(
    "points",
    [
        a_run(9),
        a_run(1),
        [CurvePoint(steps=0, seconds=0.0, dollars=0.0)],
        [CurvePoint(steps=5, seconds=1.0, dollars=0.1, evaluation=summary([-3.0]))],
        two_sides(5),
        two_sides(1),
    ],
    ids=["a run", "one round", "nothing scored", "one evaluation of one episode", "two sides", "two sides, one round"],
)
def test_curve_is_png_of_800_by_500_pixels(tmp_path, points):
    draw(points, tmp_path / "curve.png", "mappo, $1 of $2")
    assert size_of((tmp_path / "curve.png").read_bytes()) == (800, 500)
    assert [file.name for file in tmp_path.iterdir()] == ["curve.png"]


def test_equal_runs_give_equal_pictures(tmp_path):
    for name in ("first.png", "second.png"):
        draw(a_run(4), tmp_path / name, "run")
    assert (tmp_path / "first.png").read_bytes() == (tmp_path / "second.png").read_bytes()


def test_failing_curve_leaves_old_curve(tmp_path):
    path = tmp_path / "curve.png"
    path.write_bytes(b"old")
    with pytest.raises(ValueError, match="at least one round"):
        draw([], path, "run")
    assert path.read_bytes() == b"old"


def test_failed_write_leaves_old_curve_without_litter(tmp_path, monkeypatch):
    path = tmp_path / "curve.png"
    path.write_bytes(b"old")

    def refuse(self, target):
        raise OSError("disk is gone")

    monkeypatch.setattr("pathlib.Path.replace", refuse)
    with pytest.raises(OSError, match="disk is gone"):
        draw(a_run(2), path, "run")
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["curve.png"]


def test_missing_matplotlib_for_curve_says_how_to_install(tmp_path, shell):
    shell.uninstall("matplotlib")
    with pytest.raises(MissingExtra, match=r"^pictures need matplotlib: pip install [^\n]*\[report\]'$"):
        draw(a_run(1), tmp_path / "curve.png", "run")


def test_sides_are_drawn_in_place_of_their_sum(tmp_path, monkeypatch):
    from matplotlib.axes import Axes

    drawn = {}
    plot = Axes.plot

    def kept(axes, steps, returns, *style, **how):
        drawn[how["label"]] = list(returns)
        return plot(axes, steps, returns, *style, **how)

    monkeypatch.setattr(Axes, "plot", kept)
    draw(two_sides(3), tmp_path / "curve.png", "run")
    assert drawn == {
        "adversary, while training": [-4.0, -3.0, -2.0],
        "adversary, evaluation": [-3.0, -1.0],
        "agent, while training": [4.0, 3.0, 2.0],
        "agent, evaluation": [3.0, 1.0],
    }
