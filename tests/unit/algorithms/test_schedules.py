"""Settings that fall over a run."""

import pytest

from marless.coordinator.config.loading import load
from marless.coordinator.config.schema import ConfigError
from marless.functions.algorithms.ddpg.specs import MaddpgConfig
from marless.functions.algorithms.ppo.specs import IppoConfig
from marless.functions.algorithms.sac.specs import IsacConfig


@pytest.mark.parametrize(
    ("kind", "shares"), [("constant", (1, 1, 1)), ("linear", (1, 0.75, 0.1)), ("cosine", (1, 0.85355339, 0.02447174))]
)
def test_setting_falls_from_full_value_to_zero(kind, shares):
    config = IppoConfig(lr=0.02, clip_coef=0.2, ent_coef=0.01, lr_schedule=kind, ent_schedule=kind, clip_schedule=kind)
    for progress, share in zip((0, 0.25, 0.9), shares, strict=True):
        found = config.at(progress)
        expected = (0.02 * share, 0.2 * share, 0.01 * share)
        assert (found.lr, found.clip_coef, found.ent_coef) == pytest.approx(expected, rel=1e-6)
        assert found.gamma == config.gamma


def test_only_what_has_a_schedule_falls():
    found = IppoConfig(lr=0.02, ent_coef=0.01, lr_schedule="linear").at(0.5)
    assert (found.lr, found.ent_coef) == (0.01, 0.01)
    assert IppoConfig(lr=0.02).at(0.5) == IppoConfig(lr=0.02)


def test_critics_slow_down_with_policies():
    found = MaddpgConfig(lr=0.001, critic_lr=0.004, lr_schedule="linear").at(0.5)
    assert (found.lr, found.critic_lr) == (0.0005, 0.002)
    soft = IsacConfig(lr=0.001, critic_lr=0.004, temperature_lr=0.003, lr_schedule="linear").at(0.5)
    assert (soft.lr, soft.critic_lr, soft.temperature_lr) == (0.0005, 0.002, 0.0015)


def test_a_run_of_unknown_length_has_no_schedule():
    with pytest.raises(ConfigError, match=r"algorithm\.lr falls over the run, .* set stop\.env_steps or stop\.rounds"):
        load(None, ["algorithm.lr_schedule=linear", "stop.dollars=1"])
    assert load(None, ["algorithm.lr_schedule=linear"]).stop.rounds == 400
