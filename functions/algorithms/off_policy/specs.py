"""Specify methods with a replay buffer for the coordinator: settings, critics' parts, networks and their sizes."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

from msgspec import Meta, structs
from numpy.typing import NDArray

from marless.functions.algorithms import agent_inputs, specification
from marless.functions.environments.base import AgentClass, EnvSpec
from marless.functions.errors import BadRequest
from marless.functions.messages.team import Team
from marless.functions.nn.layers import LayerNorm
from marless.functions.nn.shape import Network
from marless.functions.setting_limits import LARGEST, LARGEST_STEP, MOST_ENV_STEPS, MOST_STEPS, MOST_UNITS, MOST_UPDATES

if TYPE_CHECKING:  # descriptions of algorithms load without data
    from marless.functions.data.batch import Batch

Array = NDArray[Any]

# The default size of a minibatch in steps, and its fewest segments, because steps of one episode are correlated.
_STEPS, _SEGMENTS = 256, 4
_HUBER = 1.0
# The advice if an agent makes several choices at once, which only the PPO family supports.
ONE_CHOICE = "use ippo or mappo, or with PettingZoo and RWARE task.options.joint_actions=true"
# The part with the sampling priorities of the replay buffer.
PRIORITIES = "priorities"
TWIN_PARTS = ("twin", "twin_optimiser", "twin_target")
CRITIC_PARTS = ("critic", "critic_optimiser", "critic_target", *TWIN_PARTS, "normaliser")


class ReplayConfig(specification.DiscountedConfig, frozen=True, kw_only=True):
    """The settings of replay. `time_limit`: Pardo et al., "Time Limits in Reinforcement Learning", 2018.

    Attributes:
        updates_per_round: optimiser steps per round, each on a new minibatch. Higher learns more from the same data,
            but takes longer
        batch_size: segments in a minibatch. Default: 256 steps, at least 4 segments. Higher is less noisy, but takes
            longer
        buffer_size: newest environment steps, the source of minibatches. Higher keeps older data and takes more memory
        target_update_interval: updates between copies to the target networks, in place of tau. Higher is more stable,
            but slower
        standardise_rewards: divide rewards by their running standard deviation. Other settings then depend less on the
            scale of rewards
        centre_rewards: subtract the running mean of rewards first. Use it only if all episodes are equally long
        huber_delta: error above which the loss is linear. Default: none, or 1 with time_limit=terminal. Lower makes
            outliers count less
        sequence_length: steps in a segment. Default: 1, or a whole rollout if 1 is too short
        burn_in: first steps of a segment, which only fill the networks' hidden state. Higher leaves fewer steps to
            learn from
    """

    lr: specification.LearningRate = 1e-3
    updates_per_round: Annotated[int, Meta(ge=1, le=MOST_UPDATES)] = 64
    batch_size: Annotated[int, Meta(ge=1, le=MOST_UNITS)] | None = None
    buffer_size: Annotated[int, Meta(ge=1, le=MOST_ENV_STEPS)] = 100_000
    tau: specification.TargetStep = 0.01
    target_update_interval: Annotated[int, Meta(ge=1, le=MOST_UPDATES)] | None = None
    standardise_rewards: bool = True
    centre_rewards: bool = False
    huber_delta: Annotated[float, Meta(gt=0, le=LARGEST)] | None = None
    max_grad_norm: specification.GradientNorm = 10.0
    adam_eps: specification.AdamEpsilon = 1e-5
    hidden: specification.HiddenWidths = (64, 64)
    recurrent: bool = False
    layer_norm: bool = False
    sequence_length: Annotated[int, Meta(ge=1, le=MOST_STEPS)] | None = None
    burn_in: Annotated[int, Meta(ge=0, le=MOST_STEPS)] = 0
    time_limit: specification.TimeLimit = "bootstrap"

    def __post_init__(self) -> None:
        """Raises `ValueError` for a segment that is all burn-in."""
        if self.length is not None and self.burn_in >= self.length:
            raise ValueError(
                f"burn_in is {self.burn_in}, and a sequence has {self.length} steps; set a longer sequence_length"
            )

    @property
    def length(self) -> int | None:
        """Steps in a segment, or None for a whole rollout."""
        return self.sequence_length or (None if self.recurrent else 1)

    def resolved(self, spec: EnvSpec) -> Self:
        """Also fills in the size of minibatches and the Huber loss's threshold."""
        batch_size = self.batch_size or max(_SEGMENTS, _STEPS // (self.length or spec.horizon))
        # A termination that observations do not predict gives an outlier target, which would dominate a squared loss.
        huber_delta = _HUBER if self.huber_delta is None and self.time_limit == "terminal" else self.huber_delta
        return structs.replace(super().resolved(spec), batch_size=batch_size, huber_delta=huber_delta)

    def incompatibility(self, steps: int) -> str:
        rollout = f"the {steps} that an actor plays"
        if self.length is not None and steps % self.length:
            return f"sequence_length: sequences of {self.length} steps do not fill {rollout}; set a divisor of {steps}"
        if self.burn_in >= (self.length or steps):
            return f"burn_in: {self.burn_in} steps leave none to learn from of {rollout}; set fewer"
        return ""

    @property
    def replayed_steps(self) -> int:
        return self.buffer_size


class CriticConfig(ReplayConfig, frozen=True, kw_only=True):
    """The settings of policies that follow critics.

    Critics have larger step sizes than policies, ten times as large in Lillicrap et al., "Continuous control with deep
    reinforcement learning", 2016. A policy that learns faster than its critic saturates softmax and tanh, and their
    gradients vanish. Agents learn from the reward of their side by default, see Papoudakis et al., "Benchmarking
    Multi-Agent Deep Reinforcement Learning Algorithms in Cooperative Tasks", 2021.

    Attributes:
        lr: Adam's step size for policies. Higher learns faster, but is less stable
        critic_lr: Adam's step size for critics. Higher learns faster, but is less stable
    """

    lr: Annotated[float, Meta(gt=0, le=LARGEST_STEP)] = 1e-3
    critic_lr: Annotated[float, Meta(gt=0, le=LARGEST_STEP)] = 3e-3
    reward: specification.RewardName = "team"

    @property
    def critics(self) -> tuple[str, ...]:
        """The parts that are critics."""
        return ("critic", "twin")

    @property
    def target_delay(self) -> int:
        """Updates of critics for each one of policies and targets."""
        return 1

    @property
    def schedules(self) -> Mapping[str, specification.ScheduleName]:
        return {"lr": self.lr_schedule, "critic_lr": self.lr_schedule}


def kind_of(spec: EnvSpec, agent: int) -> AgentClass:
    """The agent's class. Raises `BadRequest` if the agent makes several choices at once."""
    kind = next(kind for kind in spec.classes if agent in kind.agents)
    if kind.branches:
        raise BadRequest(
            f"{spec.agents[agent]} makes several choices at once; the algorithm takes one, or numbers: {ONE_CHOICE}"
        )
    return kind


class View(NamedTuple):
    """The inputs of an agent's critic: `inputs` ``[T, E, width]`` and, after each cut, ``[K, width]``, and the actions
    of `agents`."""

    width: Callable[[EnvSpec, int], int]
    inputs: Callable[["Batch", int], tuple[Array, Array]]
    agents: Callable[[EnvSpec, Team, int], list[int]]

    def whole_width(self, spec: EnvSpec, team: Team, agent: int) -> int:
        """The width of all inputs of the agent's critic, without identity."""
        return self.width(spec, agent) + sum(kind_of(spec, actor).actions for actor in self.agents(spec, team, agent))

    def shape(self, spec: EnvSpec, agent: int) -> tuple[int, ...]:
        """See `agent_inputs.critic_shape`."""
        return agent_inputs.critic_shape(spec, agent, self.width(spec, agent))


# Independent critics see their agent. Centralised ones see the environment's state and all agents except fixed
# opponents, which are part of the environment.
OWN_VIEW = View(agent_inputs.observation_width, agent_inputs.own_observation, agents=lambda spec, team, agent: [agent])
TEAM_VIEW = View(
    agent_inputs.state_width, agent_inputs.team_state, agents=lambda spec, team, agent: list(team.learners)
)


def actor_and_critic(
    view: View, spec: EnvSpec, team: Team, config: CriticConfig, group: int, stochastic: bool
) -> tuple[Network, Network]:
    """The group's policy and critic. `stochastic` policies have two outputs for each number of an action.

    Raises `BadRequest` for several choices at once.
    """
    agent, identity = agent_inputs.members(team, group)[0], len(spec.agents) if team.identity else 0
    kind = kind_of(spec, agent)
    outputs = 2 * kind.actions if kind.continuous and stochastic else kind.actions
    acting = kind.observation_size + identity, *config.hidden, outputs
    valuing = view.whole_width(spec, team, agent) + identity, *config.hidden, 1
    norm = LayerNorm if config.layer_norm else None
    actor, critic = (Network(sizes, config.recurrent, norm=norm) for sizes in (acting, valuing))
    return agent_inputs.over_entities(config, actor, agent_inputs.described(config, kind)), critic


def actor_critic_bytes(
    view: View, spec: EnvSpec, team: Team, config: CriticConfig, group: int, stochastic: bool
) -> dict[str, int]:
    """The bytes of a group's policy and critics, of the critics' targets, and of moments, by part.

    Raises `BadRequest` for several choices at once.
    """
    actor, critic = actor_and_critic(view, spec, team, config, group, stochastic)
    if config.has_factory:
        return {}  # which only its factory knows
    sizes = specification.trained_bytes("policy", actor.parameters)
    for part in config.critics:
        sizes |= specification.trained_bytes(part, critic.parameters)
        sizes[f"{part}_target"] = sizes[part]
    return sizes
