"""An ablation's pictures: their data, and drawing them from incomplete sets of runs."""

import itertools
import struct

import numpy as np
import pytest
from ablated_runs import a_curve, a_result
from hypothesis import given
from hypothesis import strategies as st

from marless.ablation.ablation_plots import draw, mean_line
from marless.comparison.finished_run import CostPoint, Round
from marless.functions.errors import MissingExtra
from marless.reports.plot_style import spread

ALWAYS = ["return_steps.png", "return_dollars.png", "return_seconds.png", "rounds.png", "bill.png"]
APART = Round(rollouts=4, learners=6, team=(0, 1, 2), event="")
TOGETHER = Round(rollouts=2, learners=4, team=(0, 0, 2), event="shared")


def size_of(path):
    png = path.read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", png[16:24])


def many(arms):
    return {f"arm {number}": {1: a_result(f"arm {number}", 1)} for number in range(arms)}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "arms",
    [{"a": {1: a_result(curve=a_curve(1000, 10.0, 0.1, -80.0, -80.0, points=1), history=(APART,))}}, many(8)],
    ids=["one round, one evaluation", "more arms than colours"],
)
def test_every_ablation_can_be_drawn(tmp_path, arms):
    assert draw(arms, tmp_path, "a task, $1") == ALWAYS
    assert {size_of(tmp_path / name)[0] for name in ALWAYS} == {900}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(ALWAYS)


def test_sharing_is_drawn_if_it_occurred(tmp_path):
    arms = {"a": {1: a_result()}, "b": {1: a_result("b", 1, history=(APART, TOGETHER))}}
    assert draw(arms, tmp_path, "a task") == [*ALWAYS, "groups.png"]


def test_many_agents_have_a_colour_each(tmp_path):
    from matplotlib import colormaps
    from PIL import Image

    crowd = Round(rollouts=1, learners=1, team=(*range(12), 0), event="shared")
    draw({"a": {1: a_result(history=(crowd, crowd))}}, tmp_path, "a task")
    with Image.open(tmp_path / "groups.png") as picture:
        colours = {colour for _, colour in picture.convert("RGB").getcolors(picture.width * picture.height)}
    # Of thirteen agents, the last has the network, and so the colour, of the first.
    expected = {tuple(colour[:3]) for colour in colormaps["turbo"](np.linspace(0, 1, 13), bytes=True)[:12].tolist()}
    assert len(expected) == 12 and expected <= colours


def test_free_evaluation_is_omitted_on_logarithmic_scale(tmp_path, recwarn):
    free = CostPoint(env_steps=0, seconds=0.0, dollars=0.0, mean=-90.0)
    draw({"a": {1: a_result(curve=(free, *a_result().curve))}}, tmp_path, "a task")
    assert not recwarn.list


@pytest.mark.slow
def test_equal_ablations_give_equal_pictures(tmp_path):
    arms = {"$a$": {1: a_result(), 2: a_result(seed=2)}, "b_c": {2: a_result("b_c", 2, dollars=0.05)}}
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        draw(arms, tmp_path / name, "a_task, $1")
    for name in ALWAYS:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


def test_missing_matplotlib_says_how_to_install_it(tmp_path, shell):
    shell.uninstall("matplotlib")
    with pytest.raises(MissingExtra, match=r"^pictures need matplotlib: [^\n]*\[report\][^\n]*$"):
        draw({"a": {1: a_result()}}, tmp_path, "a task")


def test_mean_line_spans_common_start_to_mean_end():
    first = np.array([1.0, 3.0]), np.array([0.0, 4.0])
    second = np.array([2.0, 5.0]), np.array([2.0, 8.0])
    third = np.array([1.0, 4.0]), np.array([0.0, 6.0])
    line = mean_line([first, second, third, third, third])
    assert (line.x[0], line.x[-2], line.x[-1]) == (2.0, 3.0, 4.0)
    # All are 2 at 2 and 4 at 3. The ends are 4, 8, 6, 6 and 6: 2.7764, t(0.975, 4), times sqrt(8 / 4) / sqrt 5.
    assert line.y[0] == pytest.approx(2.0) and line.y[-2] == pytest.approx(4.0) and line.y[-1] == pytest.approx(6.0)
    assert line.high[0] - line.low[0] == pytest.approx(0.0, abs=1e-9)
    assert line.high[-1] - line.low[-1] == pytest.approx(2 * 2.7764 * np.sqrt(2 / 5), rel=1e-4)


@pytest.mark.parametrize("curves", [1, 4])
def test_few_curves_have_no_band(curves):
    line = mean_line([(np.array([1.0, 2.0]), np.array([3.0, 4.0 + number])) for number in range(curves)])
    assert np.array_equal(line.low, line.y) and np.array_equal(line.high, line.y)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 0.1)), min_size=1, max_size=9))
def test_labels_do_not_overlap_and_keep_their_order(labels):
    wanted, heights = zip(*labels, strict=True)
    positions = spread(wanted, heights)
    order = sorted(range(len(wanted)), key=lambda index: (wanted[index], index))
    for below, above in itertools.pairwise(order):
        assert positions[above] - positions[below] >= (heights[above] + heights[below]) / 2 - 1e-9
    assert all(
        height / 2 - 1e-9 <= position <= 1 - height / 2 + 1e-9
        for position, height in zip(positions, heights, strict=True)
    )


def test_a_label_with_room_stands_where_it_wants():
    assert spread([0.5, 0.2], [0.1, 0.1]) == [0.5, 0.2]
