"""Simple policy optimization (Xie et al., 2024): PPO with a quadratic penalty in place of the clip."""

from marless.algorithms import PPO_PARTS, PPO_STAGES, AlgorithmSpec, PpoConfig


class SpoConfig(PpoConfig, frozen=True, kw_only=True, tag_field="name", tag="spo"):
    """The settings of PPO; clip_coef is the ratio's distance from 1 at which the penalty outweighs the gain."""


SPEC = AlgorithmSpec(name="spo", config=SpoConfig, stages=PPO_STAGES, parts=PPO_PARTS, implementation="my_loss_stages")
