"""The plateau warning: by hand without noise, and its error rates with noise."""

import math

import numpy as np
import pytest
from ablated_runs import empty_line
from simulated import make_plan

from marless.reports.plateau import FEWEST, FEWEST_EVER, Plateau, PlateauMonitor, blocks, plateau, warning

ROUNDS = 400


def noise(rng, series, rho, heavy, rounds=ROUNDS):
    """Stationary AR(1) noise ``[series, rounds]`` of standard deviation one, Gaussian or Student t3."""
    shape = series, rounds + 40  # 0.6^40 = 1e-9: the start is forgotten
    shocks = rng.standard_t(3, shape) / math.sqrt(3) if heavy else rng.normal(size=shape)
    for round_ in range(1, rounds + 40):
        shocks[:, round_] += rho * shocks[:, round_ - 1]
    return shocks[:, 40:] * math.sqrt(1 - rho**2)


def ever(series):
    return any(plateau(series[:rounds]) for rounds in range(FEWEST, len(series) + 1, 10))


def share(rows):
    return float(np.mean([ever(row) for row in rows]))


def test_points_are_means_of_the_last_segments():
    assert blocks(np.arange(8.0), 2, 3).tolist() == [2.5, 4.5, 6.5]


def test_flat_or_falling_run_is_plateau_rising_not():
    rises = np.minimum(np.arange(400.0), 200.0)
    # The points are means of 6 rounds, the first of rounds 4 to 9 (from 0), the last 30 of them all at 200.
    assert plateau(rises) == Plateau(rounds=180, of=400, rise=0.0, gain=200.0 - 6.5)
    assert plateau(np.arange(400.0)) is None
    assert plateau(np.sqrt(np.arange(400.0))) is None  # the last half has 0.29 of the gain
    found = plateau(np.minimum(np.arange(400.0), 200.0) - np.maximum(np.arange(400.0) - 200, 0))
    assert found is not None and found.rise < 0


def test_unchanging_returns_are_plateau_after_enough_evaluations():
    assert plateau([-3.0] * (FEWEST_EVER - 1)) is plateau(np.minimum(np.arange(99.0), 20.0)) is plateau([]) is None
    found = plateau([-3.0] * FEWEST_EVER)
    assert found is not None and (found.rounds, found.rise, found.gain) == (180, 0.0, 0.0)


def test_start_and_unit_of_returns_do_not_matter():
    series = np.minimum(np.arange(300.0), 100.0) + noise(np.random.default_rng(5), 1, 0.3, False, 300)[0]
    found, scaled = plateau(series), plateau(50 * series - 1000)
    assert found is not None and scaled is not None
    assert (scaled.rise, scaled.gain) == (pytest.approx(50 * found.rise), pytest.approx(50 * found.gain))


# The worst noises for false alarms and for power. The others are in the conformance test.
@pytest.mark.parametrize(("rho", "heavy"), [(0.6, True), (0.0, False)])
def test_improving_run_is_rarely_warned(rho, heavy):
    rng, time = np.random.default_rng(7), np.arange(1, ROUNDS + 1) / ROUNDS
    slow = time ** -math.log2(0.9)  # the last half always has a tenth of the total gain
    assert share(slow + 0.02 * noise(rng, 40, rho, heavy)) <= 0.1
    assert share(time + 0.1 * noise(rng, 40, rho, heavy)) <= 0.1


@pytest.mark.parametrize(("rho", "heavy"), [(0.6, True), (0.0, False)])
def test_a_run_that_stands_still_is_found(rho, heavy):
    rng, time = np.random.default_rng(8), np.arange(1, ROUNDS + 1) / ROUNDS
    assert share(np.minimum(4 * time, 1) + 0.03 * noise(rng, 40, rho, heavy)) >= 0.95
    assert share(noise(rng, 40, rho, heavy)) >= 0.95


def monitor_of(plan, returns, **used):
    return PlateauMonitor(
        plan, [empty_line(round=number, return_mean=value, **used) for number, value in enumerate(returns, 1)]
    )


STILL = [min(number, 100.0) for number in range(400)]


def test_plateau_is_reported_once_with_advice():
    monitor = monitor_of(make_plan(), STILL)
    said = monitor.look()
    assert said.startswith("a plateau: in the last 180 rounds the return changed by +0, of 93.5 in all; ")
    assert said.endswith("try another algorithm.gamma or algorithm.lr or algorithm.ent_coef")
    assert monitor.plateau is not None and monitor.look() == ""


@pytest.mark.parametrize("last, is_greedy", [(0.021, False), (0.019, True), (-3.0, True)])
def test_policies_that_stop_exploring_are_named(last, is_greedy):
    monitor = PlateauMonitor(make_plan(), [])
    for number, value in enumerate(STILL, 1):
        metrics = {"policy/entropy/g00": 1.0 if number == 1 else last, "policy/entropy_a00/g00": 9.0}
        monitor.add(empty_line(round=number, return_mean=value, metrics=metrics))
    assert ("try a larger algorithm.ent_coef" in monitor.look()) is is_greedy


def test_values_that_diverge_are_told_once():
    monitor = PlateauMonitor(make_plan(), [])
    for number, (loss, line) in enumerate([(99.0, ""), (101.0, "values diverge: their loss is 101, "), (1e9, "")]):
        monitor.add(empty_line(round=number, metrics={"critic/value_loss/g00": loss, "critic/value_loss/g01": 0.1}))
        assert monitor.look()[: len(line) or None] == line


def test_much_worse_greedy_actions_are_told():
    def told(*settings, mean=1.078, rounds=20, sd=0.4, greedy=(0.0, 1.0) * 5):
        return monitor_of(make_plan(*settings), [mean] * rounds, return_sd=sd).look(greedy)

    # By hand: the 95 % interval of ten returns of 0 or 1 ends at 0.5 + 2.262 * 0.527 / sqrt(10) = 0.877 (Student's t
    # with 9 degrees of freedom). Half the standard deviation of sampled returns is 0.2.
    assert told().startswith("greedy actions return 0.50, and sampled ones 1.08 in training; ")
    assert told(mean=1.076) == told(rounds=19) == told(sd=None) == told(greedy=()) == ""
    assert told("evaluation.greedy=false") == told("algorithm.name=vdn", "placement.inline_objects=false") == ""


def test_the_warning_names_settings_that_the_algorithm_has():
    plan = make_plan("algorithm.name=iql", "placement.inline_objects=false")
    assert "algorithm.epsilon_steps" in warning(plan, Plateau(rounds=180, of=400, rise=0.0, gain=1.0))
    plan = make_plan("algorithm.name=grpo", "task.name=text/relay", "actors.num_envs=8")
    said = warning(plan, Plateau(rounds=180, of=200, rise=0.0, gain=1.0))
    assert "has not risen beyond chance in 200 rounds" in said
    assert said.endswith("try another algorithm.lr or algorithm.ent_coef or actors.num_envs")


def test_run_that_improves_again_leaves_plateau():
    monitor = monitor_of(make_plan(), STILL)
    assert monitor.look()
    for number in range(400):
        monitor.add(empty_line(round=401 + number, return_mean=100.0 + number))
    assert monitor.look() == "" and monitor.plateau is None


def test_sides_that_compete_are_not_warned_of():
    monitor = monitor_of(make_plan(), STILL, side_returns={"a": 1.0, "b": -1.0})
    assert monitor.look() == "" and monitor.plateau is None


def test_side_against_fixed_opponent_is_warned():
    monitor = PlateauMonitor(make_plan("opponents.side=1", "algorithm.name=ippo"), [])
    for number, value in enumerate(STILL, 1):
        monitor.add(empty_line(round=number, return_mean=float(number), side_returns={"a": value, "b": float(number)}))
    assert monitor.look() == monitor_of(make_plan("algorithm.name=ippo"), STILL).look() != ""


def test_rounds_without_ended_episode_do_not_count():
    returns = [value for pair in zip(STILL, [None] * 400, strict=True) for value in pair]
    assert monitor_of(make_plan(), returns).look() == monitor_of(make_plan(), STILL).look() != ""
