"""The plain loop is an oracle, so its parts are tested against numbers worked out by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.learner import Round, networks
from benchmarks.sizes import Size, draw, table
from benchmarks.table import Row, markdown, quotients, verdict
from benchmarks.training import Training
from functions.nn.shape import Network

plain_loop = pytest.importorskip("benchmarks.plain_loop", reason="torch is not installed", exc_type=ImportError)
torch = pytest.importorskip("torch")


def test_a_gradient_beyond_the_cap_is_scaled_to_it_network_by_network():
    networks = plain_loop.Networks(2, inputs=1, outputs=1, output_gain=1.0)
    for parameter in networks.parameters:
        parameter.grad = torch.zeros_like(parameter)
    networks.weights[0].grad[0, 0, 0], networks.biases[2].grad[0, 0, 0] = 30.0, 40.0
    networks.weights[0].grad[1, 0, 0] = 3.0
    networks.cap_gradients()
    assert networks.weights[0].grad[:, 0, 0].tolist() == pytest.approx([6.0, 3.0])
    assert networks.biases[2].grad[0, 0, 0].item() == pytest.approx(8.0)


def test_the_value_after_the_last_step_counts_on():
    # Residuals 1 + .9 * 2 - 1 = 1.8 and 2 + .9 * 3 - 2 = 2.7, so advantages 1.8 + .855 * 2.7 = 4.1085 and 2.7:
    # mean 3.40425, half their distance .70425. Targets 5.1085 and 4.7: mean 4.90425, half their distance .20425.
    learner = plain_loop.Learner(plain_loop.make(plain_loop.EnvTask(name="mpe/simple_spread", agents=1), 1).spec)
    rewards = np.array([[[1.0], [2.0]]], np.float32)
    advantages, targets = learner._advantages(rewards, np.array([[[1.0], [2.0], [3.0]]], np.float32))
    assert advantages.ravel().tolist() == pytest.approx([1.0, -1.0])
    assert targets.ravel().tolist() == pytest.approx([1.0, -1.0], rel=1e-4)


def test_actors_see_every_update_of_the_networks():
    networks = plain_loop.Networks(2, inputs=3, outputs=4, output_gain=1.0)
    actors = networks.in_numpy()
    with torch.no_grad():
        networks.weights[1] += 0.25
    inputs = np.linspace(-1, 1, 2 * 5 * 3, dtype=np.float32).reshape(2, 5, 3)
    expected = networks(torch.from_numpy(inputs)).detach().numpy()
    np.testing.assert_allclose(actors.outputs(inputs, None)[0], expected, atol=1e-6)


def test_a_row_has_median_noise_and_whether_its_bar_is_met():
    ratios = quotients([10.0, 30.0, 20.0], [10.0, 10.0, 10.0])
    text = markdown([Row("speed", [10.0, 30.0, 20.0], ratios=ratios, against="floor", least=2.5)])
    cells = [cell.strip() for cell in text.splitlines()[2].strip("|").split("|")]
    assert cells == ["speed", "20", "10 … 30 (3)", "2", "1 … 3 (3)", "floor", "≥ 2.5: MISSED"]


@pytest.mark.parametrize(
    ("values", "bounds", "expected"),
    [
        ([2.5, 3.0], {"least": 2.5}, "met"),
        ([2.0, 2.6, 3.0], {"least": 2.5}, "met by the median alone"),
        ([2.0, 2.4, 3.0], {"least": 2.5}, "MISSED"),
        ([2.6], {"least": 2.5}, "met in the only measurement"),
        ([2.4], {"least": 2.5}, "MISSED"),
        ([0.8, 0.9, 1.1], {"most": 1.0}, "met by the median alone"),
        ([0.8, 0.9], {"most": 1.0}, "met"),
    ],
)
def test_a_bar_is_met_only_if_every_measurement_keeps_it(values, bounds, expected):
    assert verdict(values, **bounds) == expected


def size(parameters, rates, dollars):
    placements = ("packed", "fused", "split")
    by = (dict(zip(placements, values, strict=True)) for values in (rates, dollars))
    return Size(parameters, *by, overhead=0.25, gflops=12.34, share=0.5)


def test_a_size_names_its_fastest_and_its_cheapest_placement(tmp_path):
    sizes = [size(4266, (10.0, 30.0, 20.0), (0.02, 0.03, 0.04)), size(13446, (1.0, 2.0, 3.0), (0.4, 0.2, 0.3))]
    first, second = ([cell.strip() for cell in line.strip("|").split("|")] for line in table(sizes).splitlines()[2:])
    assert first == ["4,266", "10", "30", "20", "fused", "0.0200", "0.0300", "0.0400", "packed", "0.25", "12.3", "0.50"]
    assert second == ["13,446", "1", "2", "3", "split", "0.4000", "0.2000", "0.3000", "fused", "0.25", "12.3", "0.50"]
    draw(sizes, tmp_path / "sizes.png")
    assert (tmp_path / "sizes.png").read_bytes().startswith(b"\x89PNG")


def test_rates_and_dollars_leave_out_the_first_round():
    rounds = ((1600, 5.0, 1.0), (3200, 6.0, 1.25), (4800, 7.0, 1.5))
    training = Training([SimpleNamespace(env_steps=n, seconds=s, dollars=d) for n, s, d in rounds])
    assert training.env_steps_per_second == 1600.0
    assert training.dollars_per_million_steps == pytest.approx(0.5 / 3200 * 1e6)


def test_networks_have_the_hidden_width_that_is_asked_for():
    # A policy of 18 inputs and 5 actions: 18 * 30 + 30 + 30 * 30 + 30 + 30 * 5 + 5 = 1,655; a critic of the three
    # observations: 54 * 30 + 30 + 30 * 30 + 30 + 30 + 1 = 2,611.
    layers = networks(Round(num_envs=1, hidden=30).sample())
    assert [Network(sizes).parameters for sizes in layers] == [1655, 2611]
