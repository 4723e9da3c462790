# Written by `make docs` from the schema of the configuration.

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self, TypedDict

class Settings(dict[str, Any]): ...

class Actors(Settings):
    """Rollouts, the unit of sampling. The table `placement` packs rollouts into invocations.

    Args:
        rollouts: rollouts per round, or the most that scaling.rule may pick. Higher is less noisy, but costs more
        num_envs: environments of a rollout, stepped together. Higher is less noisy, but each round takes longer
        rollout_length: steps of every environment in a rollout. Default: one episode. Longer episodes continue in
            the next round
    """

    def __init__(self, *, rollouts: int = ..., num_envs: int = ..., rollout_length: int | None = ...) -> None: ...

class BC(Settings):
    """Behaviour cloning.

    Args:
        engine: software that computes networks: numpy, C (native), torch, or the fastest on this machine (auto)
        device: torch trains on this device. Actors use the CPU
        network: mlp, gru, cnn (for images), attention (for entities), or a torch module's package.module:factory
        lr_schedule: how lr falls to 0 over stop.env_steps or stop.rounds, whichever is nearer. A falling lr is
            more stable at the end
        lr: Adam's step size. Higher learns faster, but is less stable
        epochs: passes over the round's data. Higher learns more from the same data, but is less stable and takes
            longer
        num_minibatches: optimiser steps per pass. Higher learns faster, but each step sees less data
        max_grad_norm: cap on each network's gradient norm. Lower is more stable, but can be slower
        adam_eps: small number in Adam's denominator. Higher makes steps smaller if gradients are small
        hidden: widths of the hidden layers. Wider layers can learn more, but take longer
        recurrent: use a GRU as the last hidden layer. Agents remember earlier steps, but training takes longer
        data_chunk_length: steps that a recurrent network's gradients go back through. Higher can learn longer
            memories
        layer_norm: normalise the hidden layers (LayerNorm). Training takes longer
    """

    def __init__(self, *, engine: Literal['auto', 'numpy', 'native', 'torch'] = ..., device: Literal['cpu', 'cuda'] = ..., network: Callable[..., Any] | str = ..., lr_schedule: Literal['constant', 'linear', 'cosine'] = ..., lr: float = ..., epochs: int = ..., num_minibatches: int = ..., max_grad_norm: float = ..., adam_eps: float = ..., hidden: Sequence[int] = ..., recurrent: bool = ..., data_chunk_length: int = ..., layer_norm: bool = ...) -> None: ...

class Base(Settings):
    """Frozen networks as a start: the run trains only a difference of low rank to them.

    Args:
        policies: a finished run that provides the base networks. Default: new networks
        model: agents that speak: a folder or file with a language model. Default: a small model made for the task
        rank: largest rank of the differences of matrices. Higher can learn more, but takes more memory
        layers: topmost layers of a language model that have differences. Higher can learn more, but takes longer
    """

    def __init__(self, *, policies: str | None = ..., model: str | None = ..., rank: int = ..., layers: int = ...) -> None: ...

class Config(Settings):
    """The settings of a run.

    Args:
        seed: seed of all random numbers of the run
        attempts: attempts of a work item before the run fails. Higher survives more faults
        checkpoint_every: rounds between checkpoints that survive a power loss. Lower loses less work, but stores
            more
        preset: length of a run without stop.rounds and stop.env_steps. `good` trains ten times as long as
            `quick`, the default
        task: the table `task`
        algorithm: the table `algorithm`
        actors: the table `actors`
        trend: the table `trend`
        sharing: the table `sharing`
        scaling: the table `scaling`
        placement: the table `placement`
        pipeline: the table `pipeline`
        evaluation: the table `evaluation`
        opponents: the table `opponents`
        league: the table `league`
        offline: the table `offline`
        base: the table `base`
        stop: the table `stop`
        functions: the table `functions`
        resources: the table `resources`
        pricing: the table `pricing`
        log: the table `log`
    """

    def __init__(self, *, seed: int = ..., attempts: int = ..., checkpoint_every: int = ..., preset: Literal['quick', 'good'] | None = ..., task: str | Callable[..., Any] | Mapping[str, Any] = ..., algorithm: str | type[Settings] | Mapping[str, Any] = ..., actors: Mapping[str, Any] = ..., trend: Mapping[str, Any] = ..., sharing: Mapping[str, Any] = ..., scaling: Mapping[str, Any] = ..., placement: Mapping[str, Any] = ..., pipeline: Mapping[str, Any] = ..., evaluation: Mapping[str, Any] = ..., opponents: Mapping[str, Any] = ..., league: Mapping[str, Any] = ..., offline: Mapping[str, Any] = ..., base: Mapping[str, Any] = ..., stop: Mapping[str, Any] = ..., functions: Mapping[str, Any] = ..., resources: Mapping[str, Any] = ..., pricing: Mapping[str, Any] = ..., log: Mapping[str, Any] = ..., network: str | Callable[..., Any] = ..., rounds: int = ...) -> None: ...

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Self:
        """Return the settings in a file. Raises `ConfigError`."""

    def to_toml(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the settings as the text of a file with a line for each key, and write it if there is a path."""

    def diff(self, config: Config) -> dict[str, tuple[Any, Any]]:
        """Return both values of each key that two runs would not share, with all defaults."""

class Evaluation(Settings):
    """Episodes on fresh start states.

    Args:
        greedy: play the most probable actions. With false, actions are sampled like in training
        every: rounds between evaluations. Lower shows more of the learning curve, but takes longer
        every_steps: environment steps between evaluations, in place of `every`. The first round that reaches a
            multiple is evaluated, so runs with different rollouts are evaluated at the same steps
        episodes: episodes of an evaluation. Default: a tenth of the training's episodes between two evaluations,
            at most 320. Higher is more exact, but takes longer. The absolute metric takes ten times as many as
            you set
        final_episodes: episodes for the return of the final policies, and for the absolute metric unless you set
            `episodes`. Default: a twentieth of the training's episodes, 100 to 3,200
        episodes_per_invocation: episodes in one evaluator invocation
        side: team (side) for the reported return. Default: the largest
        options: options of the task in evaluations, if they differ from training
    """

    def __init__(self, *, greedy: bool = ..., every: int = ..., every_steps: int | None = ..., episodes: int | None = ..., final_episodes: int | None = ..., episodes_per_invocation: int = ..., side: int | None = ..., options: Mapping[str, Any] = ...) -> None: ...

class Function(Settings):
    """Size of a function. 1,769 MB buy one vCPU, which counts as one core of this machine.

    Args:
        memory_mb: memory of the function, in MB. Higher is faster, but costs more per second
        timeout_s: time limit of one attempt, in seconds
    """

    def __init__(self, *, memory_mb: int = ..., timeout_s: float = ...) -> None: ...

class Functions(Settings):
    """The functions' sizes.

    Args:
        actor: the table `actor`
        learner: the table `learner`
        evaluator: the table `evaluator`
        language: the table `language`
    """

    def __init__(self, *, actor: Mapping[str, Any] = ..., learner: Mapping[str, Any] = ..., evaluator: Mapping[str, Any] = ..., language: Mapping[str, Any] = ...) -> None: ...

class HAPPO(Settings):
    """PPO with a centralised critic, group after group.

    Args:
        engine: software that computes networks: numpy, C (native), torch, or the fastest on this machine (auto)
        device: torch trains on this device. Actors use the CPU
        network: mlp, gru, cnn (for images), attention (for entities), or a torch module's package.module:factory
        lr_schedule: how lr falls to 0 over stop.env_steps or stop.rounds, whichever is nearer. A falling lr is
            more stable at the end
        gamma: discount per environment step. Default: by the longest episode, 0.97 up to 83 steps and 0.99 from
            250 on. Higher looks further ahead, but returns are noisier
        lr: Adam's step size. Default: 1e-3, or 7e-4 from six agents on. Higher learns faster, but is less stable
        critic_lr: Adam's step size for critics. Default: lr. Higher learns faster, but is less stable
        gae_lambda: λ of generalised advantage estimation. Higher relies less on the critic, but is noisier
        clip_coef: how far the probability ratio may move from 1. Lower makes updates smaller and more stable
        ent_coef: weight of the entropy bonus. Higher explores more
        clip_schedule: how clip_coef falls, like lr_schedule
        ent_schedule: how ent_coef falls, like lr_schedule
        epochs: passes over the round's data. Higher learns more from the same data, but is less stable and takes
            longer
        num_minibatches: optimiser steps per pass. Default: one for 200 environment steps of a rollout, 8 to 64.
            Higher learns faster, but each step sees less data
        value_clip: how far a value may move in a round, in normalised units. Lower is more stable, but slower
        huber_delta: error above which the value loss is linear, in normalised units. Lower makes outliers count
            less
        value_decay: memory of the value normaliser per round. Higher averages over more rounds
        max_grad_norm: cap on each network's gradient norm. Lower is more stable, but can be slower
        adam_eps: small number in Adam's denominator. Higher makes steps smaller if gradients are small
        hidden: widths of the hidden layers. Wider layers can learn more, but take longer
        recurrent: use a GRU as the last hidden layer. Agents remember earlier steps, but training takes longer
        data_chunk_length: steps that a recurrent network's gradients go back through. Higher can learn longer
            memories
        layer_norm: normalise the hidden layers (LayerNorm). Training takes longer
        normalise_observations: normalise observations by their running mean and variance, cut off at ±10. Helps
            if observations have different scales
        reward: the agent's reward (own), or the sum over its side (team). The sum continues after an agent dies
        clipped: cut off continuous actions at their bounds, in place of squashing them by tanh
        time_limit: at a time limit, estimate the value of later steps (bootstrap), or treat the limit as the end
            (terminal)
        correction: correction for data of earlier rounds: V-trace, decoupled PPO, or none. Default: decoupled
            with a pipeline.lag above 1, otherwise vtrace
        critic_input: input of a critic: the team's state, alone or together with the agent's own observation
    """

    def __init__(self, *, engine: Literal['auto', 'numpy', 'native', 'torch'] = ..., device: Literal['cpu', 'cuda'] = ..., network: Callable[..., Any] | str = ..., lr_schedule: Literal['constant', 'linear', 'cosine'] = ..., gamma: float | None = ..., lr: float | None = ..., critic_lr: float | None = ..., gae_lambda: float = ..., clip_coef: float = ..., ent_coef: float = ..., clip_schedule: Literal['constant', 'linear', 'cosine'] = ..., ent_schedule: Literal['constant', 'linear', 'cosine'] = ..., epochs: int = ..., num_minibatches: int | None = ..., value_clip: float = ..., huber_delta: float = ..., value_decay: float = ..., max_grad_norm: float = ..., adam_eps: float = ..., hidden: Sequence[int] = ..., recurrent: bool = ..., data_chunk_length: int = ..., layer_norm: bool = ..., normalise_observations: bool = ..., reward: Literal['own', 'team'] = ..., clipped: bool = ..., time_limit: Literal['bootstrap', 'terminal'] = ..., correction: Literal['vtrace', 'decoupled', 'none'] = ..., critic_input: Literal['state', 'state+observation'] = ...) -> None: ...

class IDDPG(Settings):
    """Independent DDPG.

    Args:
        engine: software that computes networks: numpy, C (native), torch, or the fastest on this machine (auto)
        device: torch trains on this device. Actors use the CPU
        network: mlp, gru, cnn (for images), attention (for entities), or a torch module's package.module:factory
        lr_schedule: how lr falls to 0 over stop.env_steps or stop.rounds, whichever is nearer. A falling lr is
            more stable at the end
        gamma: discount per environment step. Default: by the longest episode, 0.97 up to 83 steps and 0.99 from
            250 on. Higher looks further ahead, but returns are noisier
        lr: Adam's step size for policies. Higher learns faster, but is less stable
        updates_per_round: optimiser steps per round, each on a new minibatch. Higher learns more from the same
            data, but takes longer
        batch_size: segments in a minibatch. Default: 256 steps, at least 4 segments. Higher is less noisy, but
            takes longer
        buffer_size: newest environment steps, the source of minibatches. Higher keeps older data and takes more
            memory
        tau: step of target networks towards the trained networks in an update (Polyak). Lower is more stable, but
            slower
        target_update_interval: updates between copies to the target networks, in place of tau. Higher is more
            stable, but slower
        standardise_rewards: divide rewards by their running standard deviation. Other settings then depend less
            on the scale of rewards
        centre_rewards: subtract the running mean of rewards first. Use it only if all episodes are equally long
        huber_delta: error above which the loss is linear. Default: none, or 1 with time_limit=terminal. Lower
            makes outliers count less
        max_grad_norm: cap on each network's gradient norm. Lower is more stable, but can be slower
        adam_eps: small number in Adam's denominator. Higher makes steps smaller if gradients are small
        hidden: widths of the hidden layers. Wider layers can learn more, but take longer
        recurrent: use a GRU as the last hidden layer. Agents remember earlier steps, but training takes longer
        layer_norm: normalise the hidden layers (LayerNorm). Training takes longer
        sequence_length: steps in a segment. Default: 1, or a whole rollout if 1 is too short
        burn_in: first steps of a segment, which only fill the networks' hidden state. Higher leaves fewer steps
            to learn from
        time_limit: at a time limit, estimate the value of later steps (bootstrap), or treat the limit as the end
            (terminal)
        critic_lr: Adam's step size for critics. Higher learns faster, but is less stable
        reward: the agent's reward (own), or the sum over its side (team). The sum continues after an agent dies
        regularisation: weight of the policy outputs' mean square in the policy's loss. Higher prevents
            saturation. Too high stops learning
        temperature: temperature of the softmax that passes the gradient of a choice. Higher is smoother, but less
            exact
        noise_start: noise on continuous actions at first, in half ranges. Default: 0.5 for continuous actions.
            Higher explores more
        noise_end: noise on continuous actions at the end, in half ranges. Default: a tenth of noise_start. Higher
            explores more
        noise_steps: environment steps from noise_start to noise_end. Higher explores for longer
        target_noise: noise on the target policy's continuous actions, in half ranges, cut off at 2.5 times this
            value (TD3). Higher smooths the critics' targets
        policy_delay: updates of critics per update of policies and targets (TD3). Higher is more stable, but
            policies learn more slowly
        twin_critics: train two critics and use the lower value as the target (TD3). Values are overestimated
            less, but updates take longer
    """

    def __init__(self, *, engine: Literal['auto', 'numpy', 'native', 'torch'] = ..., device: Literal['cpu', 'cuda'] = ..., network: Callable[..., Any] | str = ..., lr_schedule: Literal['constant', 'linear', 'cosine'] = ..., gamma: float | None = ..., lr: float = ..., updates_per_round: int = ..., batch_size: int | None = ..., buffer_size: int = ..., tau: float = ..., target_update_interval: int | None = ..., standardise_rewards: bool = ..., centre_rewards: bool = ..., huber_delta: float | None = ..., max_grad_norm: float = ..., adam_eps: float = ..., hidden: Sequence[int] = ..., recurrent: bool = ..., layer_norm: bool = ..., sequence_length: int | None = ..., burn_in: int = ..., time_limit: Literal['bootstrap', 'terminal'] = ..., critic_lr: float = ..., reward: Literal['own', 'team'] = ..., regularisation: float = ..., temperature: float = ..., noise_start: float | None = ..., noise_end: float | None = ..., noise_steps: int = ..., target_noise: float = ..., policy_delay: int = ..., twin_critics: bool = ...) -> None: ...

class IPPO(Settings):
    """Independent PPO.

    Args:
        engine: software that computes networks: numpy, C (native), torch, or the fastest on this machine (auto)
        device: torch trains on this device. Actors use the CPU
        network: mlp, gru, cnn (for images), attention (for entities), or a torch module's package.module:factory
        lr_schedule: how lr falls to 0 over stop.env_steps or stop.rounds, whichever is nearer. A falling lr is
            more stable at the end
        gamma: discount per environment step. Default: by the longest episode, 0.97 up to 83 steps and 0.99 from
            250 on. Higher looks further ahead, but returns are noisier
        lr: Adam's step size. Default: 1e-3, or 7e-4 from six agents on. Higher learns faster, but is less stable
        critic_lr: Adam's step size for critics. Default: lr. Higher learns faster, but is less stable
        gae_lambda: λ of generalised advantage estimation. Higher relies less on the critic, but is noisier
        clip_coef: how far the probability ratio may move from 1. Lower makes updates smaller and more stable
        ent_coef: weight of the entropy bonus. Higher explores more
        clip_schedule: how clip_coef falls, like lr_schedule
        ent_schedule: how ent_coef falls, like lr_schedule
        epochs: passes over the round's data. Higher learns more from the same data, but is less stable and takes
            longer
        num_minibatches: optimiser steps per pass. Default: one for 200 environment steps of a rollout, 8 to 64.
            Higher learns faster, but each step sees less data
        value_clip: how far a value may move in a round, in normalised units. Lower is more stable, but slower
        huber_delta: error above which the value loss is linear, in normalised units. Lower makes outliers count
            less
        value_decay: memory of the value normaliser per round. Higher averages over more rounds
        max_grad_norm: cap on each network's gradient norm. Lower is more stable, but can be slower
        adam_eps: small number in Adam's denominator. Higher makes steps smaller if gradients are small
        hidden: widths of the hidden layers. Wider layers can learn more, but take longer
        recurrent: use a GRU as the last hidden layer. Agents remember earlier steps, but training takes longer
        data_chunk_length: steps that a recurrent network's gradients go back through. Higher can learn longer
            memories
        layer_norm: normalise the hidden layers (LayerNorm). Training takes longer
        normalise_observations: normalise observations by their running mean and variance, cut off at ±10. Helps
            if observations have different scales
        reward: the agent's reward (own), or the sum over its side (team). The sum continues after an agent dies
        clipped: cut off continuous actions at their bounds, in place of squashing them by tanh
        time_limit: at a time limit, estimate the value of later steps (bootstrap), or treat the limit as the end
            (terminal)
        correction: correction for data of earlier rounds: V-trace, decoupled PPO, or none. Default: decoupled
            with a pipeline.lag above 1, otherwise vtrace
    """

    def __init__(self, *, engine: Literal['auto', 'numpy', 'native', 'torch'] = ..., device: Literal['cpu', 'cuda'] = ..., network: Callable[..., Any] | str = ..., lr_schedule: Literal['constant', 'linear', 'cosine'] = ..., gamma: float | None = ..., lr: float | None = ..., critic_lr: float | None = ..., gae_lambda: float = ..., clip_coef: float = ..., ent_coef: float = ..., clip_schedule: Literal['constant', 'linear', 'cosine'] = ..., ent_schedule: Literal['constant', 'linear', 'cosine'] = ..., epochs: int = ..., num_minibatches: int | None = ..., value_clip: float = ..., huber_delta: float = ..., value_decay: float = ..., max_grad_norm: float = ..., adam_eps: float = ..., hidden: Sequence[int] = ..., recurrent: bool = ..., data_chunk_length: int = ..., layer_norm: bool = ..., normalise_observations: bool = ..., reward: Literal['own', 'team'] = ..., clipped: bool = ..., time_limit: Literal['bootstrap', 'terminal'] = ..., correction: Literal['vtrace', 'decoupled', 'none'] = ...) -> None: ...

class IQL(Settings):
    """Independent Q-learning.

    Args:
        engine: software that computes networks: numpy, C (native), torch, or the fastest on this machine (auto)
        device: torch trains on this device. Actors use the CPU
        network: mlp, gru, cnn (for images), attention (for entities), or a torch module's package.module:factory
        lr_schedule: how lr falls to 0 over stop.env_steps or stop.rounds, whichever is nearer. A falling lr is
            more stable at the end
        gamma: discount per environment step. Default: by the longest episode, 0.97 up to 83 steps and 0.99 from
            250 on. Higher looks further ahead, but returns are noisier
        lr: Adam's step size. Higher learns faster, but is less stable
        updates_per_round: optimiser steps per round, each on a new minibatch. Higher learns more from the same
            data, but takes longer
        batch_size: segments in a minibatch. Default: 256 steps, at least 4 segments. Higher is less noisy, but
            takes longer
        buffer_size: newest environment steps, the source of minibatches. Higher keeps older data and takes more
            memory
        tau: step of target networks towards the trained networks in an update (Polyak). Lower is more stable, but
            slower
        target_update_interval: updates between copies to the target networks, in place of tau. Higher is more
            stable, but slower
        standardise_rewards: divide rewards by their running standard deviation. Other settings then depend less
            on the scale of rewards
        centre_rewards: subtract the running mean of rewards first. Use it only if all episodes are equally long
        huber_delta: error above which the loss is linear. Default: none, or 1 with time_limit=terminal. Lower
            makes outliers count less
        max_grad_norm: cap on each network's gradient norm. Lower is more stable, but can be slower
        adam_eps: small number in Adam's denominator. Higher makes steps smaller if gradients are small
        hidden: widths of the hidden layers. Wider layers can learn more, but take longer
        recurrent: use a GRU as the last hidden layer. Agents remember earlier steps, but training takes longer
        layer_norm: normalise the hidden layers (LayerNorm). Training takes longer
        sequence_length: steps in a segment. Default: 1, or a whole rollout if 1 is too short
        burn_in: first steps of a segment, which only fill the networks' hidden state. Higher leaves fewer steps
            to learn from
        time_limit: at a time limit, estimate the value of later steps (bootstrap), or treat the limit as the end
            (terminal)
        epsilon_start: chance of a random action at the beginning. Higher explores more
        epsilon_end: chance of a random action at the end. Higher explores more
        epsilon_steps: environment steps from epsilon_start to epsilon_end. Higher explores for longer
        double: double Q-learning: the trained network picks the next action and the target network values it.
            Values are overestimated less
        n_step: rewards that a target sums, at most the steps of a segment after burn_in. Higher passes late
            rewards back faster, but is noisier
        td_lambda: weight of longer returns in a target (λ of Peng's Q(λ)). Higher passes late rewards back
            faster, but is noisier. With 0, targets use n_step
        cql_alpha: weight of conservative Q-learning, for learning from a dataset. Higher stays closer to the
            dataset. With 0, it is off
        priority: exponent of TD errors in replay priorities (alpha of PER). Higher replays surprising steps more
            often. With 0, replay is uniform
        priority_beta: exponent of importance weights at first (beta of PER). It grows to 1. Higher corrects more
            of the bias at first
        priority_steps: environment steps until the exponent priority_beta is 1. Higher corrects the bias later
        reward: the agent's reward (own), or the sum over its side (team). The sum continues after an agent dies
    """

    def __init__(self, *, engine: Literal['auto', 'numpy', 'native', 'torch'] = ..., device: Literal['cpu', 'cuda'] = ..., network: Callable[..., Any] | str = ..., lr_schedule: Literal['constant', 'linear', 'cosine'] = ..., gamma: float | None = ..., lr: float = ..., updates_per_round: int = ..., batch_size: int | None = ..., buffer_size: int = ..., tau: float = ..., target_update_interval: int | None = ..., standardise_rewards: bool = ..., centre_rewards: bool = ..., huber_delta: float | None = ..., max_grad_norm: float = ..., adam_eps: float = ..., hidden: Sequence[int] = ..., recurrent: bool = ..., layer_norm: bool = ..., sequence_length: int | None = ..., burn_in: int = ..., time_limit: Literal['bootstrap', 'terminal'] = ..., epsilon_start: float = ..., epsilon_end: float = ..., epsilon_steps: int = ..., double: bool = ..., n_step: int = ..., td_lambda: float = ..., cql_alpha: float = ..., priority: float = ..., priority_beta: float = ..., priority_steps: int = ..., reward: Literal['own', 'team'] = ...) -> None: ...

class ISAC(Settings):
    """Independent SAC.

    Args:
        engine: software that computes networks: numpy, C (native), torch, or the fastest on this machine (auto)
        device: torch trains on this device. Actors use the CPU
        network: mlp, gru, cnn (for images), attention (for entities), or a torch module's package.module:factory
        lr_schedule: how lr falls to 0 over stop.env_steps or stop.rounds, whichever is nearer. A falling lr is
            more stable at the end
        gamma: discount per environment step. Default: by the longest episode, 0.97 up to 83 steps and 0.99 from
            250 on. Higher looks further ahead, but returns are noisier
        lr: Adam's step size for policies. Higher learns faster, but is less stable
        updates_per_round: optimiser steps per round, each on a new minibatch. Higher learns more from the same
            data, but takes longer
        batch_size: segments in a minibatch. Default: 256 steps, at least 4 segments. Higher is less noisy, but
            takes longer
        buffer_size: newest environment steps, the source of minibatches. Higher keeps older data and takes more
            memory
        tau: step of target networks towards the trained networks in an update (Polyak). Lower is more stable, but
            slower
        target_update_interval: updates between copies to the target networks, in place of tau. Higher is more
            stable, but slower
        standardise_rewards: divide rewards by their running standard deviation. Other settings then depend less
            on the scale of rewards
        centre_rewards: subtract the running mean of rewards first. Use it only if all episodes are equally long
        huber_delta: error above which the loss is linear. Default: none, or 1 with time_limit=terminal. Lower
            makes outliers count less
        max_grad_norm: cap on each network's gradient norm. Lower is more stable, but can be slower
        adam_eps: small number in Adam's denominator. Higher makes steps smaller if gradients are small
        hidden: widths of the hidden layers. Wider layers can learn more, but take longer
        recurrent: use a GRU as the last hidden layer. Agents remember earlier steps, but training takes longer
        layer_norm: normalise the hidden layers (LayerNorm). Training takes longer
        sequence_length: steps in a segment. Default: 1, or a whole rollout if 1 is too short
        burn_in: first steps of a segment, which only fill the networks' hidden state. Higher leaves fewer steps
            to learn from
        time_limit: at a time limit, estimate the value of later steps (bootstrap), or treat the limit as the end
            (terminal)
        critic_lr: Adam's step size for critics. Higher learns faster, but is less stable
        reward: the agent's reward (own), or the sum over its side (team). The sum continues after an agent dies
        initial_temperature: weight of the entropy at first, in scaled rewards per nat. Higher explores more at
            first
        temperature_lr: Adam's step size for the logarithm of the temperature. Higher reaches the target entropy
            faster, but is less stable
        entropy_share: target entropy of a discrete choice, as a share of an even choice's entropy. Higher
            explores more
        entropy_per_number: target entropy of continuous actions, in nats per dimension. Higher explores more
    """

    def __init__(self, *, engine: Literal['auto', 'numpy', 'native', 'torch'] = ..., device: Literal['cpu', 'cuda'] = ..., network: Callable[..., Any] | str = ..., lr_schedule: Literal['constant', 'linear', 'cosine'] = ..., gamma: float | None = ..., lr: float = ..., updates_per_round: int = ..., batch_size: int | None = ..., buffer_size: int = ..., tau: float = ..., target_update_interval: int | None = ..., standardise_rewards: bool = ..., centre_rewards: bool = ..., huber_delta: float | None = ..., max_grad_norm: float = ..., adam_eps: float = ..., hidden: Sequence[int] = ..., recurrent: bool = ..., layer_norm: bool = ..., sequence_length: int | None = ..., burn_in: int = ..., time_limit: Literal['bootstrap', 'terminal'] = ..., critic_lr: float = ..., reward: Literal['own', 'team'] = ..., initial_temperature: float = ..., temperature_lr: float = ..., entropy_share: float = ..., entropy_per_number: float = ...) -> None: ...

class League(Settings):
    """Rollouts against earlier policies of the run: one side of a competitive task learns at a time.

    Args:
        rule: none: all sides play with their newest policies; uniform: every checkpoint equally often;
            prioritised: with weight (1 - p)^2, p being the share of wins against it
        every: rounds between checkpoints. The number doubles when the league is full
        size: largest number of checkpoints. Higher gives more varied opponents
        share: share of a round's rollouts against checkpoints, after one rollout of self-play. Higher forgets old
            opponents less
        script: an additional opponent: scripted, or package.module:function. Default: none
    """

    def __init__(self, *, rule: str = ..., every: int = ..., size: int = ..., share: float = ..., script: str | None = ...) -> None: ...

class Log(Settings):
    """Loggers of the run, in addition to its own files. They change no weight, and you can change them at a resume.

    Args:
        to: a list of loggers: csv, tensorboard, wandb, mlflow, or loggers of other packages
    """

    def __init__(self, *, to: Sequence[str] = ...) -> None: ...

class MADDPG(Settings):
    """Multi-agent DDPG.

    Args:
        engine: software that computes networks: numpy, C (native), torch, or the fastest on this machine (auto)
        device: torch trains on this device. Actors use the CPU
        network: mlp, gru, cnn (for images), attention (for entities), or a torch module's package.module:factory
        lr_schedule: how lr falls to 0 over stop.env_steps or stop.rounds, whichever is nearer. A falling lr is
            more stable at the end
        gamma: discount per environment step. Default: by the longest episode, 0.97 up to 83 steps and 0.99 from
            250 on. Higher looks further ahead, but returns are noisier
        lr: Adam's step size for policies. Higher learns faster, but is less stable
        updates_per_round: optimiser steps per round, each on a new minibatch. Higher learns more from the same
            data, but takes longer
        batch_size: segments in a minibatch. Default: 256 steps, at least 4 segments. Higher is less noisy, but
            takes longer
        buffer_size: newest environment steps, the source of minibatches. Higher keeps older data and takes more
            memory
        tau: step of target networks towards the trained networks in an update (Polyak). Lower is more stable, but
            slower
        target_update_interval: updates between copies to the target networks, in place of tau. Higher is more
            stable, but slower
        standardise_rewards: divide rewards by their running standard deviation. Other settings then depend less
            on the scale of rewards
        centre_rewards: subtract the running mean of rewards first. Use it only if all episodes are equally long
        huber_delta: error above which the loss is linear. Default: none, or 1 with time_limit=terminal. Lower
            makes outliers count less
        max_grad_norm: cap on each network's gradient norm. Lower is more stable, but can be slower
        adam_eps: small number in Adam's denominator. Higher makes steps smaller if gradients are small
        hidden: widths of the hidden layers. Wider layers can learn more, but take longer
        recurrent: use a GRU as the last hidden layer. Agents remember earlier steps, but training takes longer
        layer_norm: normalise the hidden layers (LayerNorm). Training takes longer
        sequence_length: steps in a segment. Default: 1, or a whole rollout if 1 is too short
        burn_in: first steps of a segment, which only fill the networks' hidden state. Higher leaves fewer steps
            to learn from
        time_limit: at a time limit, estimate the value of later steps (bootstrap), or treat the limit as the end
            (terminal)
        critic_lr: Adam's step size for critics. Higher learns faster, but is less stable
        reward: the agent's reward (own), or the sum over its side (team). The sum continues after an agent dies
        regularisation: weight of the policy outputs' mean square in the policy's loss. Higher prevents
            saturation. Too high stops learning
        temperature: temperature of the softmax that passes the gradient of a choice. Higher is smoother, but less
            exact
        noise_start: noise on continuous actions at first, in half ranges. Default: 0.5 for continuous actions.
            Higher explores more
        noise_end: noise on continuous actions at the end, in half ranges. Default: a tenth of noise_start. Higher
            explores more
        noise_steps: environment steps from noise_start to noise_end. Higher explores for longer
        target_noise: noise on the target policy's continuous actions, in half ranges, cut off at 2.5 times this
            value (TD3). Higher smooths the critics' targets
        policy_delay: updates of critics per update of policies and targets (TD3). Higher is more stable, but
            policies learn more slowly
        twin_critics: train two critics and use the lower value as the target (TD3). Values are overestimated
            less, but updates take longer
    """

    def __init__(self, *, engine: Literal['auto', 'numpy', 'native', 'torch'] = ..., device: Literal['cpu', 'cuda'] = ..., network: Callable[..., Any] | str = ..., lr_schedule: Literal['constant', 'linear', 'cosine'] = ..., gamma: float | None = ..., lr: float = ..., updates_per_round: int = ..., batch_size: int | None = ..., buffer_size: int = ..., tau: float = ..., target_update_interval: int | None = ..., standardise_rewards: bool = ..., centre_rewards: bool = ..., huber_delta: float | None = ..., max_grad_norm: float = ..., adam_eps: float = ..., hidden: Sequence[int] = ..., recurrent: bool = ..., layer_norm: bool = ..., sequence_length: int | None = ..., burn_in: int = ..., time_limit: Literal['bootstrap', 'terminal'] = ..., critic_lr: float = ..., reward: Literal['own', 'team'] = ..., regularisation: float = ..., temperature: float = ..., noise_start: float | None = ..., noise_end: float | None = ..., noise_steps: int = ..., target_noise: float = ..., policy_delay: int = ..., twin_critics: bool = ...) -> None: ...

class MAPPO(Settings):
    """PPO with a centralised critic.

    Args:
        engine: software that computes networks: numpy, C (native), torch, or the fastest on this machine (auto)
        device: torch trains on this device. Actors use the CPU
        network: mlp, gru, cnn (for images), attention (for entities), or a torch module's package.module:factory
        lr_schedule: how lr falls to 0 over stop.env_steps or stop.rounds, whichever is nearer. A falling lr is
            more stable at the end
        gamma: discount per environment step. Default: by the longest episode, 0.97 up to 83 steps and 0.99 from
            250 on. Higher looks further ahead, but returns are noisier
        lr: Adam's step size. Default: 1e-3, or 7e-4 from six agents on. Higher learns faster, but is less stable
        critic_lr: Adam's step size for critics. Default: lr. Higher learns faster, but is less stable
        gae_lambda: λ of generalised advantage estimation. Higher relies less on the critic, but is noisier
        clip_coef: how far the probability ratio may move from 1. Lower makes updates smaller and more stable
        ent_coef: weight of the entropy bonus. Higher explores more
        clip_schedule: how clip_coef falls, like lr_schedule
        ent_schedule: how ent_coef falls, like lr_schedule
        epochs: passes over the round's data. Higher learns more from the same data, but is less stable and takes
            longer
        num_minibatches: optimiser steps per pass. Default: one for 200 environment steps of a rollout, 8 to 64.
            Higher learns faster, but each step sees less data
        value_clip: how far a value may move in a round, in normalised units. Lower is more stable, but slower
        huber_delta: error above which the value loss is linear, in normalised units. Lower makes outliers count
            less
        value_decay: memory of the value normaliser per round. Higher averages over more rounds
        max_grad_norm: cap on each network's gradient norm. Lower is more stable, but can be slower
        adam_eps: small number in Adam's denominator. Higher makes steps smaller if gradients are small
        hidden: widths of the hidden layers. Wider layers can learn more, but take longer
        recurrent: use a GRU as the last hidden layer. Agents remember earlier steps, but training takes longer
        data_chunk_length: steps that a recurrent network's gradients go back through. Higher can learn longer
            memories
        layer_norm: normalise the hidden layers (LayerNorm). Training takes longer
        normalise_observations: normalise observations by their running mean and variance, cut off at ±10. Helps
            if observations have different scales
        reward: the agent's reward (own), or the sum over its side (team). The sum continues after an agent dies
        clipped: cut off continuous actions at their bounds, in place of squashing them by tanh
        time_limit: at a time limit, estimate the value of later steps (bootstrap), or treat the limit as the end
            (terminal)
        correction: correction for data of earlier rounds: V-trace, decoupled PPO, or none. Default: decoupled
            with a pipeline.lag above 1, otherwise vtrace
        critic_input: input of a critic: the team's state, alone or together with the agent's own observation
    """

    def __init__(self, *, engine: Literal['auto', 'numpy', 'native', 'torch'] = ..., device: Literal['cpu', 'cuda'] = ..., network: Callable[..., Any] | str = ..., lr_schedule: Literal['constant', 'linear', 'cosine'] = ..., gamma: float | None = ..., lr: float | None = ..., critic_lr: float | None = ..., gae_lambda: float = ..., clip_coef: float = ..., ent_coef: float = ..., clip_schedule: Literal['constant', 'linear', 'cosine'] = ..., ent_schedule: Literal['constant', 'linear', 'cosine'] = ..., epochs: int = ..., num_minibatches: int | None = ..., value_clip: float = ..., huber_delta: float = ..., value_decay: float = ..., max_grad_norm: float = ..., adam_eps: float = ..., hidden: Sequence[int] = ..., recurrent: bool = ..., data_chunk_length: int = ..., layer_norm: bool = ..., normalise_observations: bool = ..., reward: Literal['own', 'team'] = ..., clipped: bool = ..., time_limit: Literal['bootstrap', 'terminal'] = ..., correction: Literal['vtrace', 'decoupled', 'none'] = ..., critic_input: Literal['state', 'state+observation'] = ...) -> None: ...

class MASAC(Settings):
    """Multi-agent SAC.

    Args:
        engine: software that computes networks: numpy, C (native), torch, or the fastest on this machine (auto)
        device: torch trains on this device. Actors use the CPU
        network: mlp, gru, cnn (for images), attention (for entities), or a torch module's package.module:factory
        lr_schedule: how lr falls to 0 over stop.env_steps or stop.rounds, whichever is nearer. A falling lr is
            more stable at the end
        gamma: discount per environment step. Default: by the longest episode, 0.97 up to 83 steps and 0.99 from
            250 on. Higher looks further ahead, but returns are noisier
        lr: Adam's step size for policies. Higher learns faster, but is less stable
        updates_per_round: optimiser steps per round, each on a new minibatch. Higher learns more from the same
            data, but takes longer
        batch_size: segments in a minibatch. Default: 256 steps, at least 4 segments. Higher is less noisy, but
            takes longer
        buffer_size: newest environment steps, the source of minibatches. Higher keeps older data and takes more
            memory
        tau: step of target networks towards the trained networks in an update (Polyak). Lower is more stable, but
            slower
        target_update_interval: updates between copies to the target networks, in place of tau. Higher is more
            stable, but slower
        standardise_rewards: divide rewards by their running standard deviation. Other settings then depend less
            on the scale of rewards
        centre_rewards: subtract the running mean of rewards first. Use it only if all episodes are equally long
        huber_delta: error above which the loss is linear. Default: none, or 1 with time_limit=terminal. Lower
            makes outliers count less
        max_grad_norm: cap on each network's gradient norm. Lower is more stable, but can be slower
        adam_eps: small number in Adam's denominator. Higher makes steps smaller if gradients are small
        hidden: widths of the hidden layers. Wider layers can learn more, but take longer
        recurrent: use a GRU as the last hidden layer. Agents remember earlier steps, but training takes longer
        layer_norm: normalise the hidden layers (LayerNorm). Training takes longer
        sequence_length: steps in a segment. Default: 1, or a whole rollout if 1 is too short
        burn_in: first steps of a segment, which only fill the networks' hidden state. Higher leaves fewer steps
            to learn from
        time_limit: at a time limit, estimate the value of later steps (bootstrap), or treat the limit as the end
            (terminal)
        critic_lr: Adam's step size for critics. Higher learns faster, but is less stable
        reward: the agent's reward (own), or the sum over its side (team). The sum continues after an agent dies
        initial_temperature: weight of the entropy at first, in scaled rewards per nat. Higher explores more at
            first
        temperature_lr: Adam's step size for the logarithm of the temperature. Higher reaches the target entropy
            faster, but is less stable
        entropy_share: target entropy of a discrete choice, as a share of an even choice's entropy. Higher
            explores more
        entropy_per_number: target entropy of continuous actions, in nats per dimension. Higher explores more
    """

    def __init__(self, *, engine: Literal['auto', 'numpy', 'native', 'torch'] = ..., device: Literal['cpu', 'cuda'] = ..., network: Callable[..., Any] | str = ..., lr_schedule: Literal['constant', 'linear', 'cosine'] = ..., gamma: float | None = ..., lr: float = ..., updates_per_round: int = ..., batch_size: int | None = ..., buffer_size: int = ..., tau: float = ..., target_update_interval: int | None = ..., standardise_rewards: bool = ..., centre_rewards: bool = ..., huber_delta: float | None = ..., max_grad_norm: float = ..., adam_eps: float = ..., hidden: Sequence[int] = ..., recurrent: bool = ..., layer_norm: bool = ..., sequence_length: int | None = ..., burn_in: int = ..., time_limit: Literal['bootstrap', 'terminal'] = ..., critic_lr: float = ..., reward: Literal['own', 'team'] = ..., initial_temperature: float = ..., temperature_lr: float = ..., entropy_share: float = ..., entropy_per_number: float = ...) -> None: ...

class Offline(Settings):
    """Learning from recorded episodes. Only evaluations use the environment.

    Args:
        dataset: a folder of marless export --to npz. The run learns from it in place of rollouts
    """

    def __init__(self, *, dataset: str | None = ...) -> None: ...

class Opponents(Settings):
    """Fixed opponents: one side of a competitive task does not learn.

    Args:
        side: the side that does not learn. Default: none
        policies: policies of this side: random, scripted, or the policies of a run or a file
    """

    def __init__(self, *, side: int | None = ..., policies: str = ...) -> None: ...

class PQN(Settings):
    """Parallel Q-learning.

    Args:
        engine: software that computes networks: numpy, C (native), torch, or the fastest on this machine (auto)
        device: torch trains on this device. Actors use the CPU
        network: mlp, gru, cnn (for images), attention (for entities), or a torch module's package.module:factory
        lr_schedule: how lr falls to 0 over stop.env_steps or stop.rounds, whichever is nearer. A falling lr is
            more stable at the end
        gamma: discount per environment step. Default: by the longest episode, 0.97 up to 83 steps and 0.99 from
            250 on. Higher looks further ahead, but returns are noisier
        lr: Adam's step size. Higher learns faster, but is less stable
        td_lambda: weight of longer returns in a target (λ of Peng's Q(λ)). Higher passes late rewards back
            faster, but is noisier
        decomposition: the value of a side is the sum of its agents' values (sum), or each agent learns alone
            (none)
        reward: the agent's reward (own), or the sum over its side (team). With decomposition=sum it is always the
            sum
        epochs: passes over the round's data. Higher learns more from the same data, but is less stable and takes
            longer
        num_minibatches: optimiser steps per pass. Higher learns faster, but each step sees less data
        epsilon_start: chance of a random action at the beginning. Higher explores more
        epsilon_end: chance of a random action at the end. Higher explores more
        epsilon_steps: environment steps from epsilon_start to epsilon_end. Higher explores for longer
        max_grad_norm: cap on each network's gradient norm. Lower is more stable, but can be slower
        adam_eps: small number in Adam's denominator. Higher makes steps smaller if gradients are small
        hidden: widths of the hidden layers. Wider layers can learn more, but take longer
        layer_norm: normalise the hidden layers (LayerNorm). Values are then stable without target networks
        time_limit: at a time limit, estimate the value of later steps (bootstrap), or treat the limit as the end
            (terminal)
    """

    def __init__(self, *, engine: Literal['auto', 'numpy', 'native', 'torch'] = ..., device: Literal['cpu', 'cuda'] = ..., network: Callable[..., Any] | str = ..., lr_schedule: Literal['constant', 'linear', 'cosine'] = ..., gamma: float | None = ..., lr: float = ..., td_lambda: float = ..., decomposition: Literal['sum', 'none'] = ..., reward: Literal['own', 'team'] = ..., epochs: int = ..., num_minibatches: int = ..., epsilon_start: float = ..., epsilon_end: float = ..., epsilon_steps: int = ..., max_grad_norm: float = ..., adam_eps: float = ..., hidden: Sequence[int] = ..., layer_norm: bool = ..., time_limit: Literal['bootstrap', 'terminal'] = ...) -> None: ...

class Pipeline(Settings):
    """Overlap of sampling and learning in a round.

    Args:
        lag: age of a round's data, in rounds. With 1, a round learns from the previous round's data while new
            data is sampled. Higher makes the data older and saves no time
        micro_batch: rollouts of a micro-batch. Its gradients are summed while other rollouts are sampled. With 0,
            learning waits for the whole round
    """

    def __init__(self, *, lag: int = ..., micro_batch: int = ...) -> None: ...

class Placement(Settings):
    """Spread work over invocations. Weights stay the same, unless a scaling rule reads list prices.

    Args:
        rule: split: a learner per stage and group; fused: a learner per group; balanced: the default: a learner
            per slot, with about as much work each, or in the cloud `auto`; packed: one learner for all, the
            default if learners exchange tensors in every update; whole: sampling and learning in one function;
            auto: the cheapest, chosen before every round
        pack: rollouts in one actor invocation. Higher needs fewer invocations, but rounds take longer
        chain: largest number of rounds in one invocation of whole
        inline_objects: send objects inside messages and store them only at checkpoints. Rule auto makes this
            choice itself
    """

    def __init__(self, *, rule: str = ..., pack: int = ..., chain: int = ..., inline_objects: bool = ...) -> None: ...

class Pricing(Settings):
    """The price list of the bill.

    Args:
        region: AWS region of the price list
        architecture: processor of the functions: arm or x86
        storage: S3 class: standard or express
    """

    def __init__(self, *, region: str = ..., architecture: Literal['arm', 'x86'] = ..., storage: Literal['standard', 'express'] = ...) -> None: ...

class QMIX(Settings):
    """Monotonic mixing, or mixing by a factory's network.

    Args:
        engine: software that computes networks: numpy, C (native), torch, or the fastest on this machine (auto)
        device: torch trains on this device. Actors use the CPU
        network: mlp, gru, cnn (for images), attention (for entities), or a torch module's package.module:factory
        lr_schedule: how lr falls to 0 over stop.env_steps or stop.rounds, whichever is nearer. A falling lr is
            more stable at the end
        gamma: discount per environment step. Default: by the longest episode, 0.97 up to 83 steps and 0.99 from
            250 on. Higher looks further ahead, but returns are noisier
        lr: Adam's step size. Higher learns faster, but is less stable
        updates_per_round: optimiser steps per round, each on a new minibatch. Higher learns more from the same
            data, but takes longer
        batch_size: segments in a minibatch. Default: 256 steps, at least 4 segments. Higher is less noisy, but
            takes longer
        buffer_size: newest environment steps, the source of minibatches. Higher keeps older data and takes more
            memory
        tau: step of target networks towards the trained networks in an update (Polyak). Lower is more stable, but
            slower
        target_update_interval: updates between copies to the target networks, in place of tau. Higher is more
            stable, but slower
        standardise_rewards: divide rewards by their running standard deviation. Other settings then depend less
            on the scale of rewards
        centre_rewards: subtract the running mean of rewards first. Use it only if all episodes are equally long
        huber_delta: error above which the loss is linear. Default: 1. Lower makes outliers count less
        max_grad_norm: cap on each network's gradient norm. Lower is more stable, but can be slower
        adam_eps: small number in Adam's denominator. Higher makes steps smaller if gradients are small
        hidden: widths of the hidden layers. Wider layers can learn more, but take longer
        recurrent: use a GRU as the last hidden layer. Agents remember earlier steps, but training takes longer
        layer_norm: normalise the hidden layers (LayerNorm). Training takes longer
        sequence_length: steps in a segment. Default: 1, or a whole rollout if 1 is too short
        burn_in: first steps of a segment, which only fill the networks' hidden state. Higher leaves fewer steps
            to learn from
        time_limit: at a time limit, estimate the value of later steps (bootstrap), or treat the limit as the end
            (terminal)
        epsilon_start: chance of a random action at the beginning. Higher explores more
        epsilon_end: chance of a random action at the end. Higher explores more
        epsilon_steps: environment steps from epsilon_start to epsilon_end. Higher explores for longer
        double: double Q-learning: the trained network picks the next action and the target network values it.
            Values are overestimated less
        n_step: rewards that a target sums, at most the steps of a segment after burn_in. Higher passes late
            rewards back faster, but is noisier
        td_lambda: weight of longer returns in a target (λ of Peng's Q(λ)). Higher passes late rewards back
            faster, but is noisier. With 0, targets use n_step
        cql_alpha: weight of conservative Q-learning, for learning from a dataset. Higher stays closer to the
            dataset. With 0, it is off
        priority: exponent of TD errors in replay priorities (alpha of PER). Higher replays surprising steps more
            often. With 0, replay is uniform
        priority_beta: exponent of importance weights at first (beta of PER). It grows to 1. Higher corrects more
            of the bias at first
        priority_steps: environment steps until the exponent priority_beta is 1. Higher corrects the bias later
        hypernet_embed: hidden units of the mixing network's hypernetworks. Higher can learn more, but takes
            longer. With 0, they are linear
        mixing_embed_dim: hidden units of the mixing network. Higher can learn more, but takes longer
        mixer: a torch module's package.module:factory in place of QMIX's mixing network
    """

    def __init__(self, *, engine: Literal['auto', 'numpy', 'native', 'torch'] = ..., device: Literal['cpu', 'cuda'] = ..., network: Callable[..., Any] | str = ..., lr_schedule: Literal['constant', 'linear', 'cosine'] = ..., gamma: float | None = ..., lr: float = ..., updates_per_round: int = ..., batch_size: int | None = ..., buffer_size: int = ..., tau: float = ..., target_update_interval: int | None = ..., standardise_rewards: bool = ..., centre_rewards: bool = ..., huber_delta: float | None = ..., max_grad_norm: float = ..., adam_eps: float = ..., hidden: Sequence[int] = ..., recurrent: bool = ..., layer_norm: bool = ..., sequence_length: int | None = ..., burn_in: int = ..., time_limit: Literal['bootstrap', 'terminal'] = ..., epsilon_start: float = ..., epsilon_end: float = ..., epsilon_steps: int = ..., double: bool = ..., n_step: int = ..., td_lambda: float = ..., cql_alpha: float = ..., priority: float = ..., priority_beta: float = ..., priority_steps: int = ..., hypernet_embed: int = ..., mixing_embed_dim: int = ..., mixer: Callable[..., Any] | str | None = ...) -> None: ...

class QPLEX(Settings):
    """Duplex dueling.

    Args:
        engine: software that computes networks: numpy, C (native), torch, or the fastest on this machine (auto)
        device: torch trains on this device. Actors use the CPU
        network: mlp, gru, cnn (for images), attention (for entities), or a torch module's package.module:factory
        lr_schedule: how lr falls to 0 over stop.env_steps or stop.rounds, whichever is nearer. A falling lr is
            more stable at the end
        gamma: discount per environment step. Default: by the longest episode, 0.97 up to 83 steps and 0.99 from
            250 on. Higher looks further ahead, but returns are noisier
        lr: Adam's step size. Higher learns faster, but is less stable
        updates_per_round: optimiser steps per round, each on a new minibatch. Higher learns more from the same
            data, but takes longer
        batch_size: segments in a minibatch. Default: 256 steps, at least 4 segments. Higher is less noisy, but
            takes longer
        buffer_size: newest environment steps, the source of minibatches. Higher keeps older data and takes more
            memory
        tau: step of target networks towards the trained networks in an update (Polyak). Lower is more stable, but
            slower
        target_update_interval: updates between copies to the target networks, in place of tau. Higher is more
            stable, but slower
        standardise_rewards: divide rewards by their running standard deviation. Other settings then depend less
            on the scale of rewards
        centre_rewards: subtract the running mean of rewards first. Use it only if all episodes are equally long
        huber_delta: error above which the loss is linear. Default: 1. Lower makes outliers count less
        max_grad_norm: cap on each network's gradient norm. Lower is more stable, but can be slower
        adam_eps: small number in Adam's denominator. Higher makes steps smaller if gradients are small
        hidden: widths of the hidden layers. Wider layers can learn more, but take longer
        recurrent: use a GRU as the last hidden layer. Agents remember earlier steps, but training takes longer
        layer_norm: normalise the hidden layers (LayerNorm). Training takes longer
        sequence_length: steps in a segment. Default: 1, or a whole rollout if 1 is too short
        burn_in: first steps of a segment, which only fill the networks' hidden state. Higher leaves fewer steps
            to learn from
        time_limit: at a time limit, estimate the value of later steps (bootstrap), or treat the limit as the end
            (terminal)
        epsilon_start: chance of a random action at the beginning. Higher explores more
        epsilon_end: chance of a random action at the end. Higher explores more
        epsilon_steps: environment steps from epsilon_start to epsilon_end. Higher explores for longer
        double: double Q-learning: the trained network picks the next action and the target network values it.
            Values are overestimated less
        n_step: rewards that a target sums, at most the steps of a segment after burn_in. Higher passes late
            rewards back faster, but is noisier
        td_lambda: weight of longer returns in a target (λ of Peng's Q(λ)). Higher passes late rewards back
            faster, but is noisier. With 0, targets use n_step
        cql_alpha: weight of conservative Q-learning, for learning from a dataset. Higher stays closer to the
            dataset. With 0, it is off
        priority: exponent of TD errors in replay priorities (alpha of PER). Higher replays surprising steps more
            often. With 0, replay is uniform
        priority_beta: exponent of importance weights at first (beta of PER). It grows to 1. Higher corrects more
            of the bias at first
        priority_steps: environment steps until the exponent priority_beta is 1. Higher corrects the bias later
        hypernet_embed: hidden units of the mixing network's hypernetworks. Higher can learn more, but takes
            longer. With 0, they are linear
        mixing_heads: attention heads of the mixing network. Higher can learn more, but takes longer
    """

    def __init__(self, *, engine: Literal['auto', 'numpy', 'native', 'torch'] = ..., device: Literal['cpu', 'cuda'] = ..., network: Callable[..., Any] | str = ..., lr_schedule: Literal['constant', 'linear', 'cosine'] = ..., gamma: float | None = ..., lr: float = ..., updates_per_round: int = ..., batch_size: int | None = ..., buffer_size: int = ..., tau: float = ..., target_update_interval: int | None = ..., standardise_rewards: bool = ..., centre_rewards: bool = ..., huber_delta: float | None = ..., max_grad_norm: float = ..., adam_eps: float = ..., hidden: Sequence[int] = ..., recurrent: bool = ..., layer_norm: bool = ..., sequence_length: int | None = ..., burn_in: int = ..., time_limit: Literal['bootstrap', 'terminal'] = ..., epsilon_start: float = ..., epsilon_end: float = ..., epsilon_steps: int = ..., double: bool = ..., n_step: int = ..., td_lambda: float = ..., cql_alpha: float = ..., priority: float = ..., priority_beta: float = ..., priority_steps: int = ..., hypernet_embed: int = ..., mixing_heads: int = ...) -> None: ...

class Resource(Settings):
    """A function, program or service that answers questions. Set exactly one of `serve`, `command` and `http`.

    Args:
        serve: package.module:function, which takes a question and returns an answer
        command: a program that answers lines, such as stockfish
        http: address of a service: a question is the body of a POST, the answer its body
        until: command: beginning of the last line of an answer. Default: an answer is one line
        ready: command: beginning of the line that says it is ready for questions. Default: it is asked at once
        ping: command: it is kept running, and a line that starts with `ready` answers this line
        tagged: command: it is kept running, and repeats the first word of a question in its answer
        slots: actions at once, over all runs of a study. Higher is faster, if the resource allows it
        cores: the least and the most cores of one action
        rate: largest number of actions that start in a time, such as 600/min. Default: no limit
        timeout_s: time limit of one attempt at an action
        attempts: attempts of an action before its task fails. Higher survives more faults
        keep: keep answers as objects of the run. Each question is asked and paid once, even after failures
        sandbox: bubblewrap: block the network and all writing
        sandbox_paths: files and folders that may be read in the sandbox, in addition to the program's own file
        memory_mb: memory of one slot, in MB
    """

    def __init__(self, *, serve: str = ..., command: str = ..., http: str = ..., until: str = ..., ready: str = ..., ping: str = ..., tagged: bool = ..., slots: int = ..., cores: Sequence[int] = ..., rate: str = ..., timeout_s: float = ..., attempts: int = ..., keep: bool = ..., sandbox: Literal['none', 'bubblewrap'] = ..., sandbox_paths: Sequence[str] = ..., memory_mb: int = ...) -> None: ...

class Scaling(Settings):
    """Rule that sets how many rollouts a round samples.

    Args:
        rule: constant: the same number every round; gns: by gradient noise; paper: by convexity, with the paper's
            literal threshold; offset: by convexity, with a threshold counted from the minimum; shuffled:paper:
            the control of paper: its signal in random order; shuffled:offset: the control of offset: its signal
            in random order; shuffled:gns: the control of gns: its signal in random order; tradeoff: by gradient
            noise and the placement's prices, from 2 rollouts on; budget: the most progress within stop.dollars
            and stop.rounds; adapt: by the mean return on its way to stop.return, like MinionsRL;
            shuffled:tradeoff: the control of tradeoff: its signal in random order; shuffled:budget: the control
            of budget: its signal in random order; shuffled:adapt: the control of adapt: its signal in random
            order
        min_rollouts: smallest number of rollouts per round. Default: actors.rollouts / agents, 2 with tradeoff
            and budget, 1 with adapt
        priced_as: placement that tradeoff and budget take list prices from. Default: placement.rule
        beta: threshold of the rules paper and offset
    """

    def __init__(self, *, rule: str = ..., min_rollouts: int | None = ..., priced_as: str | None = ..., beta: float = ...) -> None: ...

class Sharing(Settings):
    """The groups of agents that share networks, and the way that rules dynamic and roles change them during training.

    Args:
        rule: none: separate networks, the default; all: one network per class of equal spaces, the default with a
            replay buffer; groups: the groups of sharing.groups, fixed; dynamic: switched on and off by the trend;
            lasting: switched on by the trend, and never off; roles: switched on by the trend, and members
            separate when their rewards show different roles; shuffled:roles: the control of roles: at the same
            time, but with members drawn by lot
        groups: rule groups: lists of agents that share networks. Other agents have separate networks
        rows: a group learns from the rows of all members (pooled), or from as many rows as one member has
        identity: networks take the agent's one-hot as input. Default: true, but false with rule none
        start: how dynamic sharing begins. The MARLess paper begins apart
        distance: between policies: jsd: root of the mean Jensen-Shannon divergence of choices; kde-kl: the
            MARLess paper's; hellinger: Hellinger distance of Gaussian actions; w2: 2-Wasserstein distance of
            Gaussian actions; regret: loss of value by acting as the other; action: Euclidean distance of actions
        grouping: linkage: agents closer than epsilon; kmeans: the paper's schedule
        cap: largest number of kmeans groups in a class: a number, or by the paper's text or figure
        epsilon: linkage merges agents if their distance is below this, with confidence. Higher merges more agents
        confidence: confidence that a distance is below epsilon. Higher merges fewer agents
        base: networks that a new group starts from: distil: one policy distilled from all members; return: the
            member with the best return; convexity: the member with the most convex loss
        distil_steps: optimiser steps of base distil. Higher copies the members more exactly, but takes longer
        trial: share only after a trial on new episodes. The shared team may lose at most margin
        margin: loss of return that the trial accepts, as a share of the run's gain. Higher accepts sharing more
            often
        error: probability that the trial accepts a worse team, or that rule roles splits equal agents. Lower
            needs more episodes
        trial_episodes: largest number of episodes of each of the two teams in a trial. Higher detects smaller
            losses, but takes longer
    """

    def __init__(self, *, rule: str = ..., groups: Sequence[Sequence[str]] | None = ..., rows: Literal['pooled', 'member'] = ..., identity: bool | None = ..., start: Literal['together', 'apart'] = ..., distance: str = ..., grouping: str = ..., cap: Literal['text', 'figure'] | int = ..., epsilon: float = ..., confidence: float = ..., base: str = ..., distil_steps: int = ..., trial: bool = ..., margin: float = ..., error: float = ..., trial_episodes: int = ...) -> None: ...

class Stop(Settings):
    """Limits of the run. It ends with the first round that meets one of them. Default: 400 rounds.

    Args:
        rounds: number of finished rounds
        env_steps: environment steps
        seconds: seconds of training, without interruptions
        dollars: hard cap on the bill, in dollars. The run never exceeds it, even after failures
        return: target for the mean return of an evaluation
    """

    def __init__(self, *, rounds: int | None = ..., env_steps: int | None = ..., seconds: float | None = ..., dollars: float | None = ..., return_: float | None = ...) -> None: ...

class Task(Settings):
    """The environment that is played, by name, with its number of agents and its options.

    Args:
        name: the environment, such as mpe/simple_spread, or pettingzoo:package.module:factory
        agents: number of agents, adversaries included, or a list of team sizes that train one policy. Default:
            the environment's own number
        options: keyword arguments of the environment
        last_action: observations end with the agent's last action, for recurrent networks
        order: the order of equal entities in observations: index, distance or relation
        judge: the resource that grades finished episodes. Default: none
    """

    def __init__(self, *, name: str = ..., agents: int | Sequence[int] | None = ..., options: Mapping[str, Any] = ..., last_action: bool = ..., order: Literal['index', 'distance', 'relation'] = ..., judge: str = ...) -> None: ...

class Trend(Settings):
    """The decline of returns that switches dynamic sharing on or off.

    Args:
        rule: significant: a decline beyond chance; paper: slope under gamma; decline: -slope over gamma
        window: rounds of the trend's window, W of the paper. Higher reacts later, but fewer declines are noise
        gamma: threshold of the rules paper and decline, in return per round
        alpha: significant: probability of a false alarm in 100 rounds without a trend. Lower raises fewer false
            alarms, but reacts later
    """

    def __init__(self, *, rule: str = ..., window: int = ..., gamma: float = ..., alpha: float = ...) -> None: ...

class VDN(Settings):
    """Value-decomposition networks.

    Args:
        engine: software that computes networks: numpy, C (native), torch, or the fastest on this machine (auto)
        device: torch trains on this device. Actors use the CPU
        network: mlp, gru, cnn (for images), attention (for entities), or a torch module's package.module:factory
        lr_schedule: how lr falls to 0 over stop.env_steps or stop.rounds, whichever is nearer. A falling lr is
            more stable at the end
        gamma: discount per environment step. Default: by the longest episode, 0.97 up to 83 steps and 0.99 from
            250 on. Higher looks further ahead, but returns are noisier
        lr: Adam's step size. Higher learns faster, but is less stable
        updates_per_round: optimiser steps per round, each on a new minibatch. Higher learns more from the same
            data, but takes longer
        batch_size: segments in a minibatch. Default: 256 steps, at least 4 segments. Higher is less noisy, but
            takes longer
        buffer_size: newest environment steps, the source of minibatches. Higher keeps older data and takes more
            memory
        tau: step of target networks towards the trained networks in an update (Polyak). Lower is more stable, but
            slower
        target_update_interval: updates between copies to the target networks, in place of tau. Higher is more
            stable, but slower
        standardise_rewards: divide rewards by their running standard deviation. Other settings then depend less
            on the scale of rewards
        centre_rewards: subtract the running mean of rewards first. Use it only if all episodes are equally long
        huber_delta: error above which the loss is linear. Default: none, or 1 with time_limit=terminal. Lower
            makes outliers count less
        max_grad_norm: cap on each network's gradient norm. Lower is more stable, but can be slower
        adam_eps: small number in Adam's denominator. Higher makes steps smaller if gradients are small
        hidden: widths of the hidden layers. Wider layers can learn more, but take longer
        recurrent: use a GRU as the last hidden layer. Agents remember earlier steps, but training takes longer
        layer_norm: normalise the hidden layers (LayerNorm). Training takes longer
        sequence_length: steps in a segment. Default: 1, or a whole rollout if 1 is too short
        burn_in: first steps of a segment, which only fill the networks' hidden state. Higher leaves fewer steps
            to learn from
        time_limit: at a time limit, estimate the value of later steps (bootstrap), or treat the limit as the end
            (terminal)
        epsilon_start: chance of a random action at the beginning. Higher explores more
        epsilon_end: chance of a random action at the end. Higher explores more
        epsilon_steps: environment steps from epsilon_start to epsilon_end. Higher explores for longer
        double: double Q-learning: the trained network picks the next action and the target network values it.
            Values are overestimated less
        n_step: rewards that a target sums, at most the steps of a segment after burn_in. Higher passes late
            rewards back faster, but is noisier
        td_lambda: weight of longer returns in a target (λ of Peng's Q(λ)). Higher passes late rewards back
            faster, but is noisier. With 0, targets use n_step
        cql_alpha: weight of conservative Q-learning, for learning from a dataset. Higher stays closer to the
            dataset. With 0, it is off
        priority: exponent of TD errors in replay priorities (alpha of PER). Higher replays surprising steps more
            often. With 0, replay is uniform
        priority_beta: exponent of importance weights at first (beta of PER). It grows to 1. Higher corrects more
            of the bias at first
        priority_steps: environment steps until the exponent priority_beta is 1. Higher corrects the bias later
    """

    def __init__(self, *, engine: Literal['auto', 'numpy', 'native', 'torch'] = ..., device: Literal['cpu', 'cuda'] = ..., network: Callable[..., Any] | str = ..., lr_schedule: Literal['constant', 'linear', 'cosine'] = ..., gamma: float | None = ..., lr: float = ..., updates_per_round: int = ..., batch_size: int | None = ..., buffer_size: int = ..., tau: float = ..., target_update_interval: int | None = ..., standardise_rewards: bool = ..., centre_rewards: bool = ..., huber_delta: float | None = ..., max_grad_norm: float = ..., adam_eps: float = ..., hidden: Sequence[int] = ..., recurrent: bool = ..., layer_norm: bool = ..., sequence_length: int | None = ..., burn_in: int = ..., time_limit: Literal['bootstrap', 'terminal'] = ..., epsilon_start: float = ..., epsilon_end: float = ..., epsilon_steps: int = ..., double: bool = ..., n_step: int = ..., td_lambda: float = ..., cql_alpha: float = ..., priority: float = ..., priority_beta: float = ..., priority_steps: int = ...) -> None: ...

class RunKeys(TypedDict, total=False):
    """Keys of a run as keywords of `train`."""

    seed: int
    attempts: int
    checkpoint_every: int
    preset: Literal['quick', 'good'] | None
    task: str | Callable[..., Any] | Mapping[str, Any]
    actors: Mapping[str, Any]
    trend: Mapping[str, Any]
    sharing: Mapping[str, Any]
    scaling: Mapping[str, Any]
    placement: Mapping[str, Any]
    pipeline: Mapping[str, Any]
    evaluation: Mapping[str, Any]
    opponents: Mapping[str, Any]
    league: Mapping[str, Any]
    offline: Mapping[str, Any]
    base: Mapping[str, Any]
    stop: Mapping[str, Any]
    functions: Mapping[str, Any]
    resources: Mapping[str, Any]
    pricing: Mapping[str, Any]
    log: Mapping[str, Any]
    network: str | Callable[..., Any]
    rounds: int

__all__ = [
    "Actors",
    "BC",
    "Base",
    "Config",
    "Evaluation",
    "Function",
    "Functions",
    "HAPPO",
    "IDDPG",
    "IPPO",
    "IQL",
    "ISAC",
    "League",
    "Log",
    "MADDPG",
    "MAPPO",
    "MASAC",
    "Offline",
    "Opponents",
    "PQN",
    "Pipeline",
    "Placement",
    "Pricing",
    "QMIX",
    "QPLEX",
    "Resource",
    "Scaling",
    "Sharing",
    "Stop",
    "Task",
    "Trend",
    "VDN",
]

def __dir__() -> list[str]: ...
