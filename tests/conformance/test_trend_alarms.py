"""The rule `significant` meets its guarantee: false alarms and power, measured over the whole chain from raw returns.

As a program it recomputes `marless.coordinator.rules.trend.CRITICAL` (minutes).
"""

import math

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from marless.coordinator.rules import trend

pytestmark = pytest.mark.conformance

ROUNDS = 100
LEAD = 40  # rounds until AR(1) noise has forgotten its start: 0.6^40 = 1e-9
NOISES = {
    "gaussian": lambda rng, size: rng.standard_normal(size),
    "t3": lambda rng, size: rng.standard_t(3, size) / math.sqrt(3),
}
RHOS = (0.0, 0.3, 0.6)
CHUNK = 1_000


def noise(rng, size, rho, kind):
    series, rounds, agents = size
    shocks = NOISES[kind](rng, (series, rounds + LEAD, agents))
    for round_ in range(1, rounds + LEAD):
        shocks[:, round_] += rho * shocks[:, round_ - 1]
    return shocks[:, LEAD:] * math.sqrt(1 - rho**2)


def windows_of(raw, window):
    """`trend.values` at every round with a full window: ``[series, rounds - window + 1, window]``."""
    low, high = (extreme.accumulate(raw, axis=1)[:, window - 1 :] for extreme in (np.minimum, np.maximum))
    rounds = sliding_window_view(raw, window, axis=1)
    return ((rounds - low[..., np.newaxis]) / (high - low)[..., np.newaxis]).mean(axis=2)


def steepest(raw, window, first=0):
    """The greatest steepness of each series from its `first` full window on."""
    chunks = np.array_split(raw, -(-len(raw) // CHUNK))
    return np.concatenate([trend.steepness(windows_of(chunk, window)[:, first:]).max(axis=1) for chunk in chunks])


def alarms(rng, series, window, rho, kind, agents=1):
    """The greatest steepness in 100 rounds without a trend, each with a full window."""
    return steepest(noise(rng, (series, ROUNDS + window - 1, agents), rho, kind), window)


def remade(rng, series, windows):
    """Rows of the table, from `series` simulated runs for each noise."""
    most = {}
    for window in windows:
        tops = [
            np.concatenate([alarms(rng, CHUNK, window, RHOS[-1], kind) for _ in range(0, series, CHUNK)])
            for kind in NOISES
        ]
        most[window] = np.max([np.quantile(top, [1 - alpha for alpha in trend.ALPHAS]) for top in tops], axis=0)
    return most


@pytest.mark.parametrize("agents", [1, 3])
def test_the_simulated_chain_is_the_rules(agents):
    rng = np.random.default_rng(agents)
    flips = 0
    raw = noise(rng, (20, 40, agents), 0.6, "t3") - np.maximum(np.arange(40) - 20, 0)[:, np.newaxis]
    simulated = windows_of(raw, 10)
    for series, expected in zip(raw, simulated, strict=True):
        history = trend.TrendHistory()
        for round_, returns in enumerate(series):
            history = trend.add_round(history, returns, 10)
            if round_ >= 9:
                values = trend.values(history)
                assert values == pytest.approx(expected[round_ - 9], abs=1e-12)
                flip = trend.TRENDS["significant"](values, 0.0, 0.1)
                assert flip == (trend.steepness(expected)[round_ - 9] > trend.critical(10, 0.1))
                flips += flip
    assert 20 < flips < 400


def test_false_alarms_stay_under_alpha():
    """Window lengths of the table and between its rows, each noise and autocorrelation, one agent and three."""
    rng, series, failures = np.random.default_rng(11), 8_000, []
    print("window agents noise     rho   measured P(any flip in 100 rounds) at alpha 0.01, 0.02, 0.05, 0.1")
    for window, agents in ((5, 1), (10, 1), (10, 3), (13, 1), (15, 1), (20, 1), (40, 1)):
        for kind in NOISES:
            for rho in RHOS:
                tops = alarms(rng, series, window, rho, kind, agents)
                rates = {alpha: (tops > trend.critical(window, alpha)).mean() for alpha in (0.01, 0.02, 0.05, 0.1)}
                print(f"{window:6} {agents:6} {kind:9} {rho}   {'  '.join(f'{rate:.4f}' for rate in rates.values())}")
                failures += [
                    (window, agents, kind, rho, alpha, rate)
                    for alpha, rate in rates.items()
                    if rate > alpha + 4 * math.sqrt(alpha * (1 - alpha) / series)
                ]
    assert not failures


def power(rng, fall, window, rho, kind, alpha):
    """P(flip within 20 rounds) of a team that rose from 0 to 1 and stayed there, then falls. Noise of 0.1."""
    path = np.concatenate([np.linspace(0, 1, 10), np.ones(window - 1), 1 - fall * np.arange(1, 21)])
    raw = path[:, np.newaxis] + 0.1 * noise(rng, (4_000, len(path), 1), rho, kind)
    return (steepest(raw, window, first=10) > trend.critical(window, alpha)).mean()


# The worst noise, for falls of 0.05 and 0.1 per round. Five rounds are too few to distinguish a fall from noise.
LEAST_POWER = {5: (0.0, 0.05), 10: (0.2, 0.9), 15: (0.85, 0.99), 20: (0.98, 0.99)}


def test_declines_are_found():
    rng = np.random.default_rng(12)
    print("P(flip within 20 rounds), alpha 0.05: gaussian rho 0, 0.3, 0.6, then t3 rho 0, 0.3, 0.6")
    for window, least in LEAST_POWER.items():
        for fall, bar in zip((0.05, 0.1), least, strict=True):
            found = [power(rng, fall, window, rho, kind, 0.05) for kind in NOISES for rho in RHOS]
            print(f"window {window:2}, fall {fall}: {'  '.join(f'{share:.3f}' for share in found)}")
            assert min(found) >= bar


def test_the_table_can_be_remade():
    """Within four standard errors of the quantile: the tabulated values are exceeded at the nominal rate."""
    series = 16_000
    rng = np.random.default_rng(13)
    for window in trend.CRITICAL:
        tops = [alarms(rng, series, window, RHOS[-1], kind) for kind in NOISES]
        for alpha, bar in zip(trend.ALPHAS, trend.CRITICAL[window], strict=True):
            rate = max((top > bar).mean() for top in tops)
            assert rate == pytest.approx(alpha, abs=4 * math.sqrt(alpha / series)), (window, alpha)


if __name__ == "__main__":
    for window, row in remade(np.random.default_rng(1), 400_000, trend.CRITICAL).items():
        print(f"    {window}: ({', '.join(f'{value:.4g}' for value in row)}),")
