"""The plateau warning keeps the promises of `marless.reports.plateau`: false alarms and power on simulated shapes."""

import math

import numpy as np
import pytest

from marless.reports.plateau import FEWEST, FEWEST_EVER, plateau

pytestmark = pytest.mark.conformance

ROUNDS, LEAD, SERIES = 400, 40, 150
NOISES = [(rho, heavy) for rho in (0.0, 0.3, 0.6) for heavy in (False, True)]
TIME = np.arange(1, ROUNDS + 1) / ROUNDS


def noise(rng, rho, heavy):
    """Stationary AR(1) noise ``[series, rounds]`` of standard deviation one, Gaussian or Student t3."""
    shape = SERIES, ROUNDS + LEAD
    shocks = rng.standard_t(3, shape) / math.sqrt(3) if heavy else rng.normal(size=shape)
    for round_ in range(1, ROUNDS + LEAD):
        shocks[:, round_] += rho * shocks[:, round_ - 1]
    return shocks[:, LEAD:] * math.sqrt(1 - rho**2)


def share(rows, first=FEWEST, kind=lambda found: True):
    """The share of runs with a warning, checked every tenth round."""
    looks = range(first, ROUNDS + 1, 10)
    found = [any((seen := plateau(row[:rounds])) and kind(seen) for rounds in looks) for row in rows]
    return float(np.mean(found))


def allowed(rate):
    return rate + 4 * math.sqrt(rate * (1 - rate) / SERIES)


def flat(found):
    """Return True if the warning says that the return stopped rising."""
    return found.rounds <= found.of / 2


@pytest.mark.parametrize(("rho", "heavy"), NOISES)
def test_runs_that_improve_are_seldom_called_flat(rho, heavy):
    rng = np.random.default_rng(11)
    slow = TIME ** -math.log2(0.9)  # at any time the last half has gained a tenth of the total
    for spread in (0.003, 0.03, 0.3):
        rates = [share(level + spread * noise(rng, rho, heavy), kind=flat) for level in (slow, TIME)]
        print(f"rho {rho} heavy {heavy} spread {spread}: slowly {rates[0]:.3f}, in a straight line {rates[1]:.3f}")
        assert rates[0] <= allowed(0.08) and rates[1] <= allowed(0.03)


@pytest.mark.parametrize(("rho", "heavy"), NOISES)
def test_rising_runs_rarely_count_as_never_risen(rho, heavy):
    rng = np.random.default_rng(12)
    rate = share(4 * TIME + noise(rng, rho, heavy), FEWEST_EVER, lambda found: not flat(found))
    print(f"rho {rho} heavy {heavy}: {rate:.3f}")
    assert rate <= allowed(0.08)


@pytest.mark.parametrize(("rho", "heavy"), NOISES)
def test_runs_that_stand_still_are_found(rho, heavy):
    rng = np.random.default_rng(13)
    rates = [share(np.minimum(4 * TIME, 1) + spread * noise(rng, rho, heavy)) for spread in (0.03, 0.1)]
    never = float(np.mean([plateau(row[:FEWEST_EVER]) is not None for row in noise(rng, rho, heavy)]))
    print(f"rho {rho} heavy {heavy}: {rates[0]:.3f}, with more noise {rates[1]:.3f}; never risen, at once {never:.3f}")
    assert rates[0] >= 0.99 and rates[1] >= 0.2 and never >= 0.9
