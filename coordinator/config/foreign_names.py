"""The counterparts of other libraries' settings, for errors about unknown keys.

The names come from EPyMARL's `config/*.yaml`, RLlib's `AlgorithmConfig` (the newer API and the older),
Stable-Baselines3's constructors, CleanRL's `Args` and BenchMARL's `conf/*.yaml`. A name that is also one of ours, with
the same meaning, is in no table.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Counterpart(NamedTuple):
    """The counterpart of a name: keys, a setting such as ``algorithm.device=cuda``, or an option such as ``--workers``.

    Of several keys the first that the algorithm has counts. `note` says how the last counterpart differs. If `here` is
    empty, it gives the reason and the nearest alternative."""

    here: tuple[str, ...]
    note: str = ""


def _is(*here: str, note: str = "") -> Counterpart:
    return Counterpart(here, note)


def _none(note: str) -> Counterpart:
    return Counterpart((), note)


_STEPS_OF_A_ROUND = "a round has actors.num_envs x actors.rollout_length x actors.rollouts environment steps"
_EVALUATED = "it counts rounds, not environment steps"
_COUNT = "it is the number of minibatches of a pass, not their size"
_WIDTHS = "the widths of the hidden layers, such as 64,64"
_HORIZON = "in tasks mpe/... it is task.options.max_cycles"
_GREEDY = _is("evaluation.greedy")
_TRACKERS = "a list of csv, tensorboard, wandb and mlflow"

_LR = _is("algorithm.lr")
_CLIP = _is("algorithm.clip_coef")
_VALUE_CLIP = _is("algorithm.value_clip")
_ENTROPY = _is("algorithm.ent_coef")
_LAMBDA = _is("algorithm.gae_lambda", "algorithm.td_lambda")
_NORM = _is("algorithm.max_grad_norm")
_EPOCHS = _is("algorithm.epochs", "algorithm.updates_per_round")
_MINIBATCH = _is("algorithm.batch_size", "algorithm.num_minibatches", note=_COUNT)
_HIDDEN = _is("algorithm.hidden", note=_WIDTHS)
_RECURRENT = _is("algorithm.recurrent")
_ENV_STEPS = _is("stop.env_steps")
_ENVS = _is("actors.num_envs")
_ROUND = _is("actors.num_envs", note=_STEPS_OF_A_ROUND)
_ROLLOUT = _is("actors.rollout_length")
_EVERY = _is("evaluation.every", note=_EVALUATED)
_EPISODES = _is("evaluation.episodes")
_TASK = _is("task.name")
_OPTIONS = _is("task.options")
_TARGETS = _is("algorithm.target_update_interval", note="it counts updates; algorithm.tau moves targets smoothly")
_FIRST_EPSILON = _is("algorithm.epsilon_start", "algorithm.ent_coef")
_LAST_EPSILON = _is("algorithm.epsilon_end")
_EPSILON_STEPS = _is("algorithm.epsilon_steps", note="it counts environment steps")
_CUDA = _is("algorithm.device=cuda")
_SHARED = _is("sharing.rule=all", note="none: a network for each agent")
_WORKERS = _is("--workers")
_CHECKPOINTS = _is("checkpoint_every", note="it counts rounds")
_RUN = _is("--run")
_TRAINED_ON = _none("marless resume RUN goes on with a run")
_NO_VALUE_WEIGHT = _none("a critic has its own network and optimiser, whose step is algorithm.critic_lr, and no weight")
_NO_KL = _none("no penalty and no early end bound a pass by KL; algorithm.clip_coef and algorithm.epochs do")
_TRACES = _none("algorithm.correction=vtrace cuts ratios off at 1, as RLlib does by default, and decoupled at 5")
_NORMALISED = _none("advantages are always normalised, over a round's rows of a group")
_FROM_THE_FIRST = _none("learning begins after the first round; actors.num_envs makes it longer")
_ADAM = _none("networks are trained by Adam; its settings are algorithm.lr and algorithm.adam_eps")
_PLAN = _none("marless plan FILE --deadline 10m --dollars 1 chooses the placement of a run")
_DRAWN = _none("marless replay RUN draws a run at play")
_FOLDER = _none("a run's files are in runs/NAME; --run sets the name")
_ACTIVATION = _none("layers have tanh, those of value methods ReLU; another one needs an algorithm.network of your own")
_DETERMINISTIC = _none("the same configuration and seed always give the same bytes")

EPYMARL: Mapping[str, Counterpart] = {
    "add_value_last_step": _is("algorithm.time_limit=bootstrap"),
    "batch_size_run": _ENVS,
    "checkpoint_path": _TRAINED_ON,
    "common_reward": _is("algorithm.reward=team"),
    "double_q": _is("algorithm.double"),
    "entropy_coef": _ENTROPY,
    "env_args": _OPTIONS,
    "env_args.key": _TASK,
    "env_args.map_name": _is("task.name", note="such as smac/3m"),
    "env_args.time_limit": _is("task.options.horizon", note=_HORIZON),
    "eps_clip": _CLIP,
    "epsilon_anneal_time": _EPSILON_STEPS,
    "epsilon_finish": _LAST_EPSILON,
    "evaluation_epsilon": _none("evaluations of value methods play greedily"),
    "grad_norm_clip": _NORM,
    "hidden_dim": _HIDDEN,
    "hypernet_layers": _none("a hypernetwork has one hidden layer, of algorithm.hypernet_embed units, or none: 0"),
    "load_step": _TRAINED_ON,
    "local_results_path": _FOLDER,
    "log_interval": _none("every round is logged"),
    "mac": _is("sharing.rule", note="basic_mac is all, non_shared_mac is none"),
    "map_name": _is("task.name", note="such as smac/3m"),
    "obs_agent_id": _is("sharing.identity"),
    "obs_individual_obs": _is("algorithm.critic_input=state+observation"),
    "obs_last_action": _is("task.last_action"),
    "optim_alpha": _ADAM,
    "optim_eps": _is("algorithm.adam_eps"),
    "q_nstep": _is("algorithm.n_step", "algorithm.gae_lambda"),
    "rnn_hidden_dim": _HIDDEN,
    "runner": _none("a rollout has actors.num_envs environments side by side"),
    "save_model": _none("a run always stores its policies"),
    "save_model_interval": _CHECKPOINTS,
    "standardise_returns": _none("critics of PPO always learn from normalised values: algorithm.value_decay"),
    "t_max": _ENV_STEPS,
    "target_update_interval_or_tau": _is("algorithm.tau", note="more than 1 is algorithm.target_update_interval"),
    "test_greedy": _GREEDY,
    "test_interval": _EVERY,
    "test_nepisode": _EPISODES,
    "use_cuda": _CUDA,
    "use_rnn": _RECURRENT,
    "use_tensorboard": _is("log.to=tensorboard"),
    "use_wandb": _is("log.to=wandb"),
}

RLLIB: Mapping[str, Counterpart] = {
    "batch_mode": _none("a rollout has actors.rollout_length steps of every environment, by default an episode"),
    "capacity": _is("algorithm.buffer_size"),
    "checkpoint_frequency": _CHECKPOINTS,
    "clip_param": _CLIP,
    "entropy_coeff": _ENTROPY,
    "entropy_coeff_schedule": _is("algorithm.ent_schedule"),
    "env_config": _OPTIONS,
    "episode_reward_mean": _is("stop.return"),
    "evaluation_duration": _EPISODES,
    "evaluation_interval": _EVERY,
    "explore": _none("episodes of training always explore, and evaluations never do"),
    "fcnet_activation": _ACTIVATION,
    "fcnet_hiddens": _HIDDEN,
    "framework": _is("algorithm.engine", note="numpy or torch"),
    "grad_clip": _NORM,
    "kl_coeff": _NO_KL,
    "kl_target": _NO_KL,
    "lambda_": _LAMBDA,
    "max_seq_len": _is("algorithm.data_chunk_length", "algorithm.sequence_length"),
    "minibatch_size": _MINIBATCH,
    "num_env_runners": _WORKERS,
    "num_envs_per_env_runner": _ENVS,
    "num_envs_per_worker": _ENVS,
    "num_epochs": _EPOCHS,
    "num_gpus": _CUDA,
    "num_gpus_per_learner": _CUDA,
    "num_rollout_workers": _WORKERS,
    "num_sgd_iter": _EPOCHS,
    "num_steps_sampled_before_learning_starts": _FROM_THE_FIRST,
    "num_workers": _WORKERS,
    "observation_filter": _is("algorithm.normalise_observations"),
    "policies": _is("sharing.groups"),
    "policy_mapping_fn": _is("sharing.groups"),
    "rollout_fragment_length": _ROLLOUT,
    "sgd_minibatch_size": _MINIBATCH,
    "target_network_update_freq": _TARGETS,
    "time_total_s": _is("stop.seconds"),
    "timesteps_total": _ENV_STEPS,
    "train_batch_size": _is("algorithm.batch_size", "actors.num_envs", note=_STEPS_OF_A_ROUND),
    "train_batch_size_per_learner": _is("algorithm.batch_size", "actors.num_envs", note=_STEPS_OF_A_ROUND),
    "training_iteration": _is("stop.rounds"),
    "use_gae": _is("algorithm.gae_lambda", note="1: without it"),
    "use_kl_loss": _NO_KL,
    "use_lstm": _RECURRENT,
    "vf_clip_param": _VALUE_CLIP,
    "vf_loss_coeff": _NO_VALUE_WEIGHT,
    "vf_share_layers": _none("policies and critics have networks of their own"),
    "vtrace": _is("algorithm.correction=vtrace"),
    "vtrace_clip_pg_rho_threshold": _TRACES,
    "vtrace_clip_rho_threshold": _TRACES,
}

STABLE_BASELINES: Mapping[str, Counterpart] = {
    "action_noise": _is("algorithm.noise_start"),
    "activation_fn": _ACTIVATION,
    "batch_size": _MINIBATCH,
    "clip_range": _CLIP,
    "clip_range_vf": _VALUE_CLIP,
    "deterministic": _GREEDY,
    "env_kwargs": _OPTIONS,
    "eval_freq": _EVERY,
    "exploration_final_eps": _LAST_EPSILON,
    "exploration_fraction": _EPSILON_STEPS,
    "exploration_initial_eps": _FIRST_EPSILON,
    "gradient_steps": _is("algorithm.updates_per_round", "algorithm.epochs"),
    "learning_rate": _LR,
    "learning_starts": _FROM_THE_FIRST,
    "n_envs": _ENVS,
    "n_epochs": _EPOCHS,
    "n_eval_episodes": _EPISODES,
    "n_steps": _ROLLOUT,
    "net_arch": _HIDDEN,
    "normalize_advantage": _NORMALISED,
    "policy_kwargs": _HIDDEN,
    "target_policy_noise": _is("algorithm.target_noise"),
    "target_update_interval": _TARGETS,
    "tau": _is("algorithm.tau"),
    "tensorboard_log": _is("log.to=tensorboard"),
    "total_timesteps": _ENV_STEPS,
    "train_freq": _none("a round is played, then learned from: algorithm.updates_per_round or algorithm.epochs"),
    "use_sde": _none("actions are drawn anew at every step"),
    "verbose": _none("a command always says how far it is; from Python quiet=True says nothing"),
    "vf_coef": _NO_VALUE_WEIGHT,
}

CLEANRL: Mapping[str, Counterpart] = {
    "alpha": _is("algorithm.initial_temperature", "trend.alpha"),
    "anneal_lr": _is("algorithm.lr_schedule=linear"),
    "autotune": _none("SAC's temperature is always tuned: algorithm.entropy_share, algorithm.temperature_lr"),
    "capture_video": _DRAWN,
    "clip_vloss": _is("algorithm.value_clip", note="values are always clipped; a large number lets them move"),
    "cuda": _CUDA,
    "end_e": _LAST_EPSILON,
    "env_id": _TASK,
    "exp_name": _RUN,
    "exploration_noise": _is("algorithm.noise_start"),
    "norm_adv": _NORMALISED,
    "num_iterations": _is("stop.rounds"),
    "num_steps": _ROLLOUT,
    "policy_frequency": _is("algorithm.policy_delay"),
    "policy_lr": _LR,
    "policy_noise": _is("algorithm.target_noise"),
    "q_lr": _is("algorithm.critic_lr", "algorithm.lr"),
    "start_e": _FIRST_EPSILON,
    "target_kl": _NO_KL,
    "target_network_frequency": _TARGETS,
    "torch_deterministic": _DETERMINISTIC,
    "track": _is("log.to=wandb"),
    "train_frequency": _none("a round is played, then learned from: algorithm.updates_per_round or algorithm.epochs"),
    "update_epochs": _EPOCHS,
    "wandb_project_name": _is("log.to=wandb", note="the variable WANDB_PROJECT names the project"),
}

BENCHMARL: Mapping[str, Counterpart] = {
    "buffer_device": _none("what is replayed is in the learner's memory"),
    "checkpoint_interval": _CHECKPOINTS,
    "clip_epsilon": _CLIP,
    "clip_grad_norm": _NORM,
    "clip_grad_val": _NORM,
    "create_json": _none("marless compare writes what marl-eval reads"),
    "critic_coef": _NO_VALUE_WEIGHT,
    "evaluation_deterministic_actions": _GREEDY,
    "evaluation_episodes": _EPISODES,
    "evaluation_interval": _EVERY,
    "evaluation_static": _none("every evaluation begins in start states of its own"),
    "exploration_anneal_frames": _EPSILON_STEPS,
    "exploration_eps_end": _LAST_EPSILON,
    "exploration_eps_init": _FIRST_EPSILON,
    "hard_target_update_frequency": _TARGETS,
    "lmbda": _LAMBDA,
    "loggers": _is("log.to", note=_TRACKERS),
    "loss_critic_type": _is("algorithm.huber_delta", note="a large number comes close to the squared error"),
    "max_n_frames": _ENV_STEPS,
    "max_n_iters": _is("stop.rounds"),
    "num_cells": _HIDDEN,
    "off_policy_collected_frames_per_batch": _ROUND,
    "off_policy_init_random_frames": _FROM_THE_FIRST,
    "off_policy_memory_size": _is("algorithm.buffer_size"),
    "off_policy_n_envs_per_worker": _ENVS,
    "off_policy_n_optimizer_steps": _is("algorithm.updates_per_round"),
    "off_policy_train_batch_size": _is("algorithm.batch_size"),
    "on_policy_collected_frames_per_batch": _ROUND,
    "on_policy_minibatch_size": _is("algorithm.num_minibatches", note=_COUNT),
    "on_policy_n_envs_per_worker": _ENVS,
    "on_policy_n_minibatch_iters": _is("algorithm.epochs"),
    "parallelize_collection": _WORKERS,
    "polyak_tau": _is("algorithm.tau"),
    "prefer_continuous_actions": _is("task.options.continuous_actions"),
    "render": _DRAWN,
    "restore_file": _TRAINED_ON,
    "sampling_device": _none("actors compute on the CPU; algorithm.device is the learner's"),
    "save_folder": _FOLDER,
    "share_param_critic": _is("sharing.rule", note="critics are shared as policies are"),
    "share_policy_params": _SHARED,
    "train_device": _is("algorithm.device"),
}

# Names that many libraries share, and options of our commands.
EVERYWHERE: Mapping[str, Counterpart] = {
    "activation": _ACTIVATION,
    "algo": _is("algorithm.name"),
    "algorithm": _is("algorithm.name"),
    "algorithm_name": _is("algorithm.name"),
    "backend": _is("--backend"),
    "budget": _is("stop.dollars"),
    "detach": _is("--detach"),
    "discount": _is("algorithm.gamma"),
    "dropout": _none("networks have no dropout"),
    "deadline_s": _PLAN,
    "dollars_per_hour": _PLAN,
    "env": _TASK,
    "env_name": _TASK,
    "environment": _TASK,
    "episode_length": _is("task.options.horizon", note=_HORIZON),
    "episode_limit": _is("task.options.horizon", note=_HORIZON),
    "epsilon": _is("algorithm.epsilon_start", "algorithm.clip_coef"),
    "eval_episodes": _EPISODES,
    "eval_interval": _EVERY,
    "every": _is("evaluation.every"),
    "gpu": _CUDA,
    "gpus": _CUDA,
    "hidden_layers": _HIDDEN,
    "hidden_size": _HIDDEN,
    "hidden_sizes": _HIDDEN,
    "horizon": _is("task.options.horizon", note=_HORIZON),
    "iterations": _is("stop.rounds"),
    "jobs": _WORKERS,
    "lambda": _LAMBDA,
    "log": _is("log.to"),
    "logger": _is("log.to", note=_TRACKERS),
    "max_cycles": _is("task.options.max_cycles"),
    "max_episode_steps": _is("task.options.horizon", note=_HORIZON),
    "max_steps": _ENV_STEPS,
    "mlflow": _is("log.to=mlflow"),
    "model": _is("algorithm.network"),
    "n_agents": _is("task.agents"),
    "n_minibatches": _is("algorithm.num_minibatches"),
    "num_agents": _is("task.agents"),
    "num_episodes": _is(
        "stop.rounds",
        note="a round plays actors.num_envs x actors.rollouts episodes, unless actors.rollout_length is set",
    ),
    "optimizer": _ADAM,
    "parameter_sharing": _SHARED,
    "rnn": _RECURRENT,
    "rounds": _is("stop.rounds"),
    "run": _RUN,
    "run_name": _RUN,
    "scheduler": _is("algorithm.lr_schedule"),
    "seeds": _none("several seeds are a study: marless study FILE"),
    "share_parameters": _SHARED,
    "shared": _SHARED,
    "steps": _ENV_STEPS,
    "task": _TASK,
    "tensorboard": _is("log.to=tensorboard"),
    "timesteps": _ENV_STEPS,
    "total_steps": _ENV_STEPS,
    "value_loss_coef": _NO_VALUE_WEIGHT,
    "wandb": _is("log.to=wandb"),
    "weight_decay": _ADAM,
    "workers": _WORKERS,
}

# By the library that uses the name. If two libraries share a name, it means the same in both.
PEERS: Mapping[str, Mapping[str, Counterpart]] = {
    "EPyMARL": EPYMARL,
    "RLlib": RLLIB,
    "Stable-Baselines3": STABLE_BASELINES,
    "CleanRL": CLEANRL,
    "BenchMARL": BENCHMARL,
}
COUNTERPARTS: Mapping[str, Counterpart] = {
    name: counterpart for names in (EVERYWHERE, *PEERS.values()) for name, counterpart in names.items()
}
