"""What people type who come from other libraries or know other programs, and the line that answers them."""

import shlex

import pytest

from coordinator.config.config_keys import valid_keys
from coordinator.config.foreign_names import COUNTERPARTS, PEERS
from functions.algorithms import registry as algorithms
from marless.cli.app import Parser, main, module_of

# The line behind `marless`, and the essential part of the answer.
SETTINGS = {
    # EPyMARL
    "train algorithm.learning_rate=3e-4": "there is no key algorithm.learning_rate; did you mean algorithm.lr?",
    "train t_max=2000000": "did you mean stop.env_steps?",
    "train stop.t_max=2000000": "did you mean stop.env_steps?",
    "train batch_size_run=8": "did you mean actors.num_envs?",
    "train test_interval=50000": "did you mean evaluation.every? (it counts rounds, not environment steps)",
    "train test_nepisode=100": "did you mean evaluation.episodes?",
    "train algorithm.eps_clip=0.2": "did you mean algorithm.clip_coef?",
    "train entropy_coef=0.01": "did you mean algorithm.ent_coef?",
    "train grad_norm_clip=10": "did you mean algorithm.max_grad_norm?",
    "train hidden_dim=128": "did you mean algorithm.hidden?",
    "train use_rnn=True": "did you mean algorithm.recurrent?",
    "train q_nstep=5": "did you mean algorithm.gae_lambda?",
    "train algorithm.name=qmix q_nstep=5": "did you mean algorithm.n_step?",
    "train algorithm.name=qmix epsilon_anneal_time=50000": "did you mean algorithm.epsilon_steps?",
    "train epsilon_finish=0.05": "algorithm.epsilon_end is a key of iql, vdn, qmix and qplex, not of mappo",
    "train obs_agent_id=True": "did you mean sharing.identity?",
    "train obs_last_action=True": "did you mean task.last_action?",
    "train common_reward=True": "did you mean algorithm.reward=team?",
    "train env_args.time_limit=25": "did you mean task.options.horizon?",
    "train env_args.map_name=3m": "did you mean task.name?",
    # RLlib
    "train train_batch_size=4000": "did you mean actors.num_envs? (a round has actors.num_envs x",
    "train sgd_minibatch_size=128": "did you mean algorithm.num_minibatches? (it is the number",
    "train num_sgd_iter=10": "did you mean algorithm.epochs?",
    "train clip_param=0.2": "did you mean algorithm.clip_coef?",
    "train rollout_fragment_length=200": "did you mean actors.rollout_length?",
    "train num_env_runners=8": "it is an option of the command: --workers 8",
    "train framework=torch": "did you mean algorithm.engine?",
    "train entropy_coeff=0.01": "did you mean algorithm.ent_coef?",
    "train vf_loss_coeff=0.5": "nor anything like it: a critic has a network and an optimiser of its own",
    "train kl_coeff=0.2": "nor anything like it: no penalty",
    "train lambda_=0.95": "did you mean algorithm.gae_lambda?",
    "train grad_clip=0.5": "did you mean algorithm.max_grad_norm?",
    "train evaluation_interval=5": "did you mean evaluation.every?",
    "train model.fcnet_hiddens=[64,64]": "did you mean algorithm.hidden?",
    "train env_config.bonus=0.5": "did you mean task.options.bonus?",
    # Stable-Baselines3
    "train total_timesteps=1000000": "did you mean stop.env_steps?",
    "train n_steps=2048": "did you mean actors.rollout_length?",
    "train batch_size=64": "did you mean algorithm.num_minibatches?",
    "train n_epochs=10": "did you mean algorithm.epochs?",
    "train gae_lambda=0.95": "did you mean algorithm.gae_lambda?",
    "train clip_range=0.2": "did you mean algorithm.clip_coef?",
    "train ent_coef=0.01": "did you mean algorithm.ent_coef?",
    "train vf_coef=0.5": "nor anything like it: a critic",
    "train max_grad_norm=0.5": "did you mean algorithm.max_grad_norm?",
    "train algorithm.name=qmix learning_starts=1000": "nor anything like it: learning begins after the first round",
    "train algorithm.name=qmix target_update_interval=200": "did you mean algorithm.target_update_interval?",
    "train tau=0.005": "algorithm.tau is a key of iql, vdn,",
    "train policy_kwargs.net_arch=64,64": "did you mean algorithm.hidden?",
    # CleanRL
    "train num_envs=16": "did you mean actors.num_envs?",
    "train num_steps=128": "did you mean actors.rollout_length?",
    "train anneal_lr=True": "did you mean algorithm.lr_schedule=linear?",
    "train update_epochs=4": "did you mean algorithm.epochs?",
    "train norm_adv=True": "nor anything like it: advantages are always normalised",
    "train target_kl=0.01": "nor anything like it: no penalty",
    "train capture_video=True": "nor anything like it: marless replay RUN",
    "train track=True": "did you mean log.to=wandb?",
    # BenchMARL
    "train max_n_frames=3000000": "did you mean stop.env_steps?",
    "train on_policy_collected_frames_per_batch=6000": "did you mean actors.num_envs? (a round has",
    "train on_policy_n_minibatch_iters=45": "did you mean algorithm.epochs?",
    "train share_policy_params=True": "did you mean sharing.rule=all?",
    "train parallelize_collection=True": "it is an option of the command: --workers",
    "train evaluation_deterministic_actions=True": "nor anything like it: evaluations always play greedily",
    "train loggers=csv": "did you mean log.to?",
    "train sampling_device=cuda": "nor anything like it: actors compute on the CPU",
    # Everybody
    "train lr=3e-4": "did you mean algorithm.lr?",
    "train gamma=0.99": "did you mean algorithm.gamma?",
    "train env=mpe/simple_spread": "did you mean task.name?",
    "train workers=2": "it is an option of the command: --workers 2",
    "train rounds=100": "did you mean stop.rounds?",
    "train optimizer=adam": "nor anything like it: networks are trained by Adam",
}


@pytest.mark.parametrize("line", SETTINGS)
def test_a_name_of_another_library_is_answered_with_ours(line, capsys):
    assert main(shlex.split(line)) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("marless: the command line: ")
    assert SETTINGS[line] in said


def test_every_counterpart_exists():
    keys = {key for name in algorithms.names() for key in valid_keys(name)}
    parser = Parser()
    module_of("train").arguments(parser)
    keys |= {option for action in parser._actions for option in action.option_strings}
    for name, counterpart in COUNTERPARTS.items():
        assert counterpart.here or counterpart.note, name
        for here in counterpart.here:
            assert here.partition("=")[0] in keys or here.startswith("task.options."), name


def test_a_name_means_the_same_in_every_library_that_has_it():
    for library, names in PEERS.items():
        for name, counterpart in names.items():
            assert COUNTERPARTS[name] == counterpart, (library, name)


def test_no_key_of_ours_is_answered_as_a_name_of_others():
    """What exists for one algorithm may be another thing in another library, as `batch_size` is."""
    everywhere = set.intersection(*(set(valid_keys(name)) for name in algorithms.names()))
    assert not everywhere & COUNTERPARTS.keys()
