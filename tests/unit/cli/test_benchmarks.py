"""The plain loop is an oracle, so its parts are tested against numbers worked out by hand."""

import json
import math
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import sections
from benchmarks.baseline import kernel_form, loop
from benchmarks.learner import Round, networks
from benchmarks.sizes import Size, draw, table
from benchmarks.table import Row, markdown, quotients, verdict
from benchmarks.training import Training
from marless.functions.actor.rollout import collect
from marless.functions.nn.shape import Network

torch = pytest.importorskip("torch", reason="torch is not installed", exc_type=ImportError)
torch_form = pytest.importorskip("benchmarks.baseline.torch_form")


def two_networks(inputs, outputs):
    rng, sizes = np.random.default_rng(1), (inputs, 64, 64, outputs)
    weights = [rng.normal(0, 0.3, (2, *shape)).astype(np.float32) for shape in pairwise(sizes)]
    return torch_form.Networks(weights, [np.zeros((2, 1, size), np.float32) for size in sizes[1:]])


def test_gradient_beyond_cap_is_scaled_per_network():
    networks = two_networks(1, 1)
    for parameter in networks.parameters:
        parameter.grad = torch.zeros_like(parameter)
    networks.weights[0].grad[0, 0, 0], networks.biases[2].grad[0, 0, 0] = 30.0, 40.0
    networks.weights[0].grad[1, 0, 0] = 3.0
    networks.cap_gradients(10.0)
    assert networks.weights[0].grad[:, 0, 0].tolist() == pytest.approx([6.0, 3.0])
    assert networks.biases[2].grad[0, 0, 0].item() == pytest.approx(8.0)


def test_the_value_after_the_last_step_counts_on():
    # Residuals 1 + 0.9 * 2 - 1 = 1.8 and 2 + 0.9 * 3 - 2 = 2.7, so advantages 1.8 + 0.855 * 2.7 = 4.1085 and 2.7: mean
    # 3.40425, half their distance 0.70425. Targets 5.1085 and 4.7: mean 4.90425, half their distance 0.20425.
    learner = torch_form.TorchForm(loop.settings(seed=1, steps=1600)).learner
    rewards = np.array([[[1.0], [2.0]]] * 3, np.float32)
    advantages, targets = learner._advantages(rewards, np.array([[[1.0], [2.0], [3.0]]] * 3, np.float32))
    assert advantages.ravel().tolist() == pytest.approx([1.0, -1.0] * 3)
    assert targets.ravel().tolist() == pytest.approx([1.0, -1.0] * 3, rel=1e-4)


def test_kernel_form_has_weights_of_run(marless):
    record = loop.train(kernel_form.KernelForm(config := loop.settings(seed=3, steps=3200)), config, 0)
    run = ("seed=3", "stop.env_steps=3200", "evaluation.every=1000", "evaluation.final_episodes=2")
    assert marless("train", "algorithm.name=mappo", *run, "--run", "one").code == 0
    assert record.weights_sha256 == json.loads(Path("runs/one/summary.json").read_text())["weights_sha256"]


def test_both_forms_share_first_weights_and_episode():
    config = loop.settings(seed=3, steps=1600)
    torch_run, own = torch_form.TorchForm(config), kernel_form.KernelForm(config)
    assert torch_run.greedy_return(0, 16) == pytest.approx(own.greedy_return(0, 16), abs=1e-3)
    episodes = torch_form.play(torch_run._environment, torch_run.actors, 3, 0)
    rollout = collect(own._environment, own._policy(), 25, 3, 0, rollout=0)
    assert episodes.rewards.sum() == pytest.approx(sum(a.sum() for n, a in rollout.tensors.items() if "reward" in n))


def test_actors_see_every_update_of_the_networks():
    networks = two_networks(3, 4)
    actors = networks.in_numpy()
    with torch.no_grad():
        networks.weights[1] += 0.25
    inputs = np.linspace(-1, 1, 2 * 5 * 3, dtype=np.float32).reshape(2, 5, 3)
    expected = networks(torch.from_numpy(inputs)).detach().numpy()
    np.testing.assert_allclose(actors.outputs(inputs, None)[0], expected, atol=1e-6)


def test_row_has_median_noise_and_bar_verdict():
    ratios = quotients([10.0, 30.0, 20.0], [10.0, 10.0, 10.0])
    text = markdown([Row("speed", [10.0, 30.0, 20.0], ratios=ratios, against="floor", least=2.5)])
    cells = [cell.strip() for cell in text.splitlines()[2].strip("|").split("|")]
    assert cells == ["speed", "20", "10 … 30 (3)", "2", "1 … 3 (3)", "floor", "≥ 2.5: MISSED: kept in 1 of 3"]


@pytest.mark.parametrize(
    ("values", "bounds", "expected"),
    [
        ([2.5, 3.0, 2.6, 2.7, 2.8], {"least": 2.5}, "met"),
        ([2.5, 3.0, 2.6, 2.7], {"least": 2.5}, "kept in 4 of 4, 5 are needed"),
        ([2.4, 3.0, 2.6, 2.7, 2.8], {"least": 2.5}, "MISSED: kept in 4 of 5"),
        ([2.6], {"least": 2.5}, "kept in 1 of 1, 5 are needed"),
        ([0.8, 0.9, 1.1], {"most": 1.0}, "MISSED: kept in 2 of 3"),
        ([0.8, 0.9, 0.7, 0.6, 1.0], {"most": 1.0}, "met"),
        ([0.8, 0.9, 0.7, 0.6, math.inf], {"most": 1.0}, "MISSED: kept in 4 of 5"),
        ([1.8, 1.9, 1.7, 1.6, math.inf], {"least": 1.0}, "MISSED: kept in 4 of 5"),
    ],
)
def test_bar_needs_each_of_five_measurements(values, bounds, expected):
    assert verdict(values, **bounds) == expected


@pytest.mark.parametrize(
    ("rates", "expected"),
    [([0.9, 1.0, 1.0, 1.0, 0.89], "not met: its guard missed"), ([0.9, 1.0, 1.0, 1.0, 1.0], "met")],
)
def test_bar_is_missed_if_guard_misses(rates, expected):
    guard = Row("baseline", rates, least=0.9)
    row = Row("speed", [3.0] * 5, ratios=[3.0] * 5, against="baseline", least=2.5, guard=guard)
    assert row.cells()[-1] == f"≥ 2.5: {expected}"


def test_plain_loop_guards_bars_of_speed_table():
    """The plain loop makes 18,000 of 23,000 steps per second, and the system 60,000."""
    rates = {system: [60_000.0] * 5 for system in sections.BARS}
    for plain, expected in ((18_000.0, "not met: its guard missed"), (23_000.0, "met")):
        guard, *rows = sections.rates_of([plain] * 5, [50_000.0] * 5, rates)
        verdicts = [row.cells()[-1] for row in rows if row.least is not None]
        assert guard.is_missed == (plain < 20_700)
        assert len(verdicts) == len(rates) and all(said.endswith(f": {expected}") for said in verdicts)


def test_seed_that_misses_target_counts_as_slowest():
    """The seeds take 4, 5, 6 and 7 s, and one never reaches the target: the median is 6 s, and the ratio 0.6."""
    row = sections._compared("to -36: system", [5.0, None, 4.0, 7.0, 6.0], [10.0] * 5, "s", ".1f")
    assert row.cells()[:5] == (
        "to -36: system (reached in 4 of 5)", "6.0 s", "4.0 … not reached (5)", "0.6", "0.4 … not reached (5)",
    )  # fmt: skip
    most = sections._compared("to -36: system", [5.0, None, None], [10.0, None, 10.0], "s", ".1f")
    assert (most.cells()[1], most.cells()[3]) == ("not reached", "not reached")
    assert sections._compared("to -36: system", [5.0], [None], "s", ".1f").ratios == [0.0]


def size(parameters, rates, dollars):
    placements = ("packed", "fused", "split")
    by = (dict(zip(placements, values, strict=True)) for values in (rates, dollars))
    return Size(parameters, *by, overhead=0.25, gflops=12.34, share=0.5)


def test_size_names_fastest_and_cheapest_placement(tmp_path):
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


def test_networks_have_requested_hidden_width():
    # A policy of 18 inputs and 5 actions: 18 * 30 + 30 + 30 * 30 + 30 + 30 * 5 + 5 = 1,655. A critic of the three
    # observations: 54 * 30 + 30 + 30 * 30 + 30 + 30 + 1 = 2,611.
    layers = networks(Round(num_envs=1, hidden=30).sample())
    assert [Network(sizes).parameters for sizes in layers] == [1655, 2611]
