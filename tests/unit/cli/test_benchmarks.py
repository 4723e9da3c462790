"""The plain loop is an oracle, so its parts are tested against numbers worked out by hand."""

import numpy as np
import pytest

from benchmarks.table import Row, markdown, quotients

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
