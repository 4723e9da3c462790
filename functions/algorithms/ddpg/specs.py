"""IDDPG and MADDPG as the coordinator knows them: settings, stages, and the sizes of their networks."""

from functools import partial
from typing import Annotated, Self

from msgspec import Meta
from msgspec.structs import replace

from marless.functions.algorithms.off_policy import specs
from marless.functions.algorithms.specification import AlgorithmSpec, StageSpec
from marless.functions.environments.base import EnvSpec
from marless.functions.messages.actor import Behaviour
from marless.functions.messages.team import Team
from marless.functions.setting_limits import LARGEST, MOST_ENV_STEPS, MOST_UPDATES

_NOISE = 0.5
POLICY_PARTS = ("policy", "policy_optimiser", "target")
PARTS = (*POLICY_PARTS, *specs.CRITIC_PARTS)


class DdpgConfig(specs.CriticConfig, frozen=True, kw_only=True):
    """The settings of both: agents explore by sampling discrete actions, or by adding noise to continuous ones.

    `regularisation` prevents the saturation of softmax and tanh. It must be small if actions change rewards little, or
    it dominates the gradient. docs/data/algorithms.toml lists the values tried.

    Attributes:
        regularisation: weight of the policy outputs' mean square in the policy's loss. Higher prevents saturation. Too
            high stops learning
        temperature: temperature of the softmax that passes the gradient of a choice. Higher is smoother, but less exact
        noise_start: noise on continuous actions at first, in half ranges. Default: 0.5 for continuous actions. Higher
            explores more
        noise_end: noise on continuous actions at the end, in half ranges. Default: a tenth of noise_start. Higher
            explores more
        noise_steps: environment steps from noise_start to noise_end. Higher explores for longer
        target_noise: noise on the target policy's continuous actions, in half ranges, cut off at 2.5 times this value
            (TD3). Higher smooths the critics' targets
        policy_delay: updates of critics per update of policies and targets (TD3). Higher is more stable, but policies
            learn more slowly
        twin_critics: train two critics and use the lower value as the target (TD3). Values are overestimated less, but
            updates take longer
    """

    regularisation: Annotated[float, Meta(ge=0, le=LARGEST)] = 0.01
    temperature: Annotated[float, Meta(gt=0, le=LARGEST)] = 1.0
    noise_start: Annotated[float, Meta(ge=0, le=LARGEST)] | None = None
    noise_end: Annotated[float, Meta(ge=0, le=LARGEST)] | None = None
    noise_steps: Annotated[int, Meta(ge=1, le=MOST_ENV_STEPS)] = 50_000
    target_noise: Annotated[float, Meta(ge=0, le=LARGEST)] = 0.0
    policy_delay: Annotated[int, Meta(ge=1, le=MOST_UPDATES)] = 1
    twin_critics: bool = False

    def __post_init__(self) -> None:
        """Raises `ValueError` also where the last update of a round would not move the policy."""
        super().__post_init__()
        if self.updates_per_round % self.policy_delay:
            raise ValueError(
                f"policy_delay is {self.policy_delay}, and a round has {self.updates_per_round} updates; set a divisor"
            )

    def behaviour(self, env_steps: int) -> Behaviour:
        """Noise that decreases linearly, or samples of the distribution without noise."""
        if not self.noisy:
            return Behaviour()
        share, start, end = min(1.0, env_steps / self.noise_steps), self.noise_start or 0.0, self.noise_end or 0.0
        return Behaviour(kind="noise", amount=start + share * (end - start))

    @property
    def critics(self) -> tuple[str, ...]:
        return super().critics if self.twin_critics else ("critic",)

    @property
    def target_delay(self) -> int:
        return self.policy_delay

    @property
    def idle_parts(self) -> tuple[str, ...]:
        return () if self.twin_critics else specs.TWIN_PARTS

    @property
    def noisy(self) -> bool:
        """Return True if noise is added to continuous actions."""
        return bool(self.noise_start or self.noise_end)

    def resolved(self, spec: EnvSpec) -> Self:
        """Also fills in the noise, which is 0 unless some actions are continuous."""
        start, end = self.noise_start, self.noise_end
        if start is None:
            start = _NOISE if any(kind.continuous for kind in spec.classes) else 0.0
        return replace(super().resolved(spec), noise_start=start, noise_end=start / 10 if end is None else end)


class IddpgConfig(DdpgConfig, frozen=True, kw_only=True, tag_field="name", tag="iddpg"):
    """Independent DDPG."""


class MaddpgConfig(DdpgConfig, frozen=True, kw_only=True, tag_field="name", tag="maddpg"):
    """Multi-agent DDPG."""


def part_bytes(view: specs.View, spec: EnvSpec, team: Team, config: DdpgConfig, group: int) -> dict[str, int]:
    """The bytes of a group's networks, targets and moments. Raises `BadRequest` for several choices at once."""
    sizes = specs.actor_critic_bytes(view, spec, team, config, group, stochastic=False)
    return sizes and {**sizes, "target": sizes["policy"]}


IDDPG = AlgorithmSpec(
    "iddpg",
    IddpgConfig,
    (
        StageSpec("critic", (), "group", ("policy", "target", *specs.CRITIC_PARTS), specs.CRITIC_PARTS),
        StageSpec("policy", ("critic",), "group", POLICY_PARTS, POLICY_PARTS),
    ),
    PARTS,
    "marless.functions.algorithms.ddpg.iddpg",
    part_bytes=partial(part_bytes, specs.OWN_VIEW),
)
MADDPG = AlgorithmSpec(
    "maddpg",
    MaddpgConfig,
    (
        StageSpec("actors", (), "group", ("policy", "target"), ()),
        StageSpec("critic", ("actors",), "group", specs.CRITIC_PARTS, specs.CRITIC_PARTS, couples=True),
        StageSpec("policy", ("critic",), "group", POLICY_PARTS, POLICY_PARTS),
    ),
    PARTS,
    "marless.functions.algorithms.ddpg.maddpg",
    part_bytes=partial(part_bytes, specs.TEAM_VIEW),
)
