"""What people type who come from other libraries or know other programs, and the line that answers them."""

import shlex
from importlib.metadata import version

import msgspec
import pytest

from marless.ablation import rules_file
from marless.cli.app import main, parser_of
from marless.coordinator.config.config_keys import key_types, valid_keys
from marless.coordinator.config.foreign_names import COUNTERPARTS, PEERS
from marless.coordinator.config.loading import STUDY_TABLES, load
from marless.coordinator.config.schema import ConfigError, Pretrained, RunConfig
from marless.coordinator.config.value_faults import example
from marless.functions.algorithms import registry as algorithms
from marless.studies.study_file import StudyFile

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
    "train epsilon_finish=0.05": "algorithm.epsilon_end is a key of iql, vdn, qmix, qplex and pqn, not of ippo",
    "train obs_agent_id=True": "did you mean sharing.identity?",
    "train obs_last_action=True": "did you mean task.last_action?",
    "train common_reward=True": "did you mean algorithm.reward=team?",
    "train env_args.time_limit=25": "did you mean task.options.horizon?",
    "train env_args.map_name=3m": "did you mean task.name?",
    # RLlib
    "train train_batch_size=4000": "did you mean actors.num_envs? (a round has actors.num_envs x",
    "train algorithm.name=qmix minibatch_size=64": "did you mean algorithm.batch_size? (segments in a minibatch",
    "train algorithm.name=qmix train_batch_size=64": "did you mean algorithm.batch_size? (segments in a minibatch",
    "train sgd_minibatch_size=128": "did you mean algorithm.num_minibatches? (it is the number",
    "train num_sgd_iter=10": "did you mean algorithm.epochs?",
    "train clip_param=0.2": "did you mean algorithm.clip_coef?",
    "train rollout_fragment_length=200": "did you mean actors.rollout_length?",
    "train num_env_runners=8": "it is an option of the command: --workers 8",
    "train framework=torch": "did you mean algorithm.engine?",
    "train entropy_coeff=0.01": "did you mean algorithm.ent_coef?",
    "train vf_loss_coeff=0.5": "nor anything like it: a critic has its own network and optimiser",
    "train kl_coeff=0.2": "nor anything like it: no penalty",
    "train lambda_=0.95": "did you mean algorithm.gae_lambda?",
    "train grad_clip=0.5": "did you mean algorithm.max_grad_norm?",
    "train evaluation_interval=5": "did you mean evaluation.every?",
    "train seeds=1-3": "several seeds are a study: marless study FILE",
    "train model.fcnet_hiddens=[64,64]": "did you mean algorithm.hidden?",
    "train env_config.bonus=0.5": "did you mean task.options.bonus?",
    # Stable-Baselines3
    "train total_timesteps=1000000": "did you mean stop.env_steps?",
    "train n_steps=2048": "did you mean actors.rollout_length?",
    "train batch_size=64": "did you mean algorithm.num_minibatches?",
    "train n_epochs=10": "did you mean algorithm.epochs?",
    "train clip_range=0.2": "did you mean algorithm.clip_coef?",
    "train vf_coef=0.5": "nor anything like it: a critic",
    "train algorithm.name=qmix learning_starts=1000": "nor anything like it: learning begins after the first round",
    "train tau=0.005": "algorithm.tau is a key of iql, vdn,",
    "train policy_kwargs.net_arch=64,64": "did you mean algorithm.hidden?",
    # CleanRL
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
    "train name=qmix": "there is no key name; did you mean task.name or algorithm.name?",
    "train rule=packed": "did you mean trend.rule, sharing.rule, scaling.rule, placement.rule or league.rule?",
    "train xyzzy=1": "there is no key xyzzy; `marless config --all` lists all keys",
    "train env=mpe/simple_spread": "did you mean task.name?",
    "train workers=2": "it is an option of the command: --workers 2",
    "train algorithm.name=qmix vf_coef=0.5": "algorithm.critic_lr, and no weight (qmix has no algorithm.critic_lr)",
    "train train_freq=4": "then learned from: algorithm.updates_per_round or algorithm.epochs",
    "train optimizer=adam": "nor anything like it: networks are trained by Adam",
}

VALUES = {
    "train sharing=true": "sharing is a table, not a value; type sharing.rule=all",
    "train sharing=dynamic": "type sharing.rule=dynamic",
    "train log=csv": "type log.to=csv",
    "train stop=100": "type stop.rounds=100",
    "train task.options=3": "task.options: 3 is not a table, such as task.options.horizon=25",
    "train algorithm.name=MAPPO": "no algorithm is called 'MAPPO'; did you mean mappo? There are ippo, mappo,",
    "train algorithm.name=dqn": "no algorithm is called 'dqn'; did you mean iql?",
    "train task.name=simple_spread": "did you mean mpe/simple_spread?",
    "train algorithm.engine=pytorch": "'pytorch' is not one of auto, numpy, native, torch, such as",
    "train algorithm.recurrent=yes": "'yes' is not true or false, such as algorithm.recurrent=false",
    "train algorithm.hidden=64x64": "'64x64' is not a whole number, such as algorithm.hidden=64,64",
    "train stop.rounds=1.5": "1.5 is not a whole number, such as stop.rounds=400",
    "train actors.num_envs=1k": "'1k' is not a whole number, such as actors.num_envs=64",
    "train sharing.groups=agent_0,agent_1": """is not a list, such as sharing.groups='[["agent_0", "agent_1"]]'""",
}
OPTIONS = {
    "train --seed 3": "there is no option --seed; type seed=3",
    "train --seed=3": "there is no option --seed; type seed=3",
    "train --lr 3e-4": "there is no option --lr; type algorithm.lr=3e-4",
    "train --lr": "there is no option --lr; type algorithm.lr=0.001",
    "train --gpu": "did you mean algorithm.device=cuda?",
    "train --learning-rate 3e-4": "did you mean algorithm.lr?",
    "train --algorithm qmix": "did you mean algorithm.name?",
    "train --env mpe/simple_spread": "did you mean task.name?",
    "train --rounds 10": "did you mean stop.rounds?",
    "train --config my.toml": "a file is named alone: my.toml",
    "train --name first": "there is no option --name; type --run first",
    "train --name qmix": "there is no option --name; type algorithm.name=qmix",
    "train --name": "there is no option --name; type --run NAME",
    "train --jsn": "did you mean --json?",
    "train qmix qmixx": "there is no file qmixx; did you mean qmix?",
    "train mine": "there is no file mine; give a TOML file, a task, an algorithm or key=value",
    "train mpe/simple_spred": "no environment is called mpe/simple_spred; did you mean mpe/simple_spread?",
    "status first second": "second is one argument too many; see marless status --help",
    "runs -o X": "there is no option -o; see marless runs list --help",
}
COMMANDS = {
    "ls": "there is no command ls; did you mean: marless runs",
    "list": "did you mean: marless runs",
    "rm first": "there is no command rm; did you mean: ",
    "ui": "did you mean: marless report",
    "envs": "task.name may be matrix/climbing,",
    "algos": "algorithm.name may be ippo, mappo,",
    "--help-all": "there is no option --help-all; marless --help lists all, and marless COMMAND --help what they take",
    "seed=3 stop.rounds=4": "did you mean: marless train seed=3 stop.rounds=4",
    "my.toml": "did you mean: marless train my.toml",
    "qmix": "did you mean: marless train algorithm.name=qmix",
    "trian": "there is no command trian; did you mean train?",
    "xyzzy": "there is no command xyzzy; marless --help lists all, and marless COMMAND --help what they take",
}
OLD_NAMES = {
    "archive": "`marless runs archive`", "bill": "`marless status --bill`", "logs": "`marless cloud logs`",
    "deploy": "`marless cloud deploy`", "watch": "`marless status --follow`", "policy": "`marless cloud policy`",
    "simulate": "`marless estimate --simulate`", "remove": "`marless runs remove`", "verify": "`marless runs verify`",
    "timeline": "`marless report --timeline`", "unarchive": "`marless runs restore`", "study x --slots=1": "--workers",
    "completion": "`marless doctor --completion`", "estimate --slots=1": "--concurrency", "export -o x": "--out",
    "ablate": "`marless study FILE`, where the file names `rules`", "ablate --jobs=2": "--workers",
    "worker --slots=1 x": "--workers",
}  # fmt: skip
# A line that is no mistake, and a line that it prints.
ACCEPTED = {
    "config mpe/simple_tag qmix": 'name = "qmix"  # command line',
    "config mpe/simple_tag rounds=7": "rounds = 7  # command line",
    "config algorithm.hidden=64,64": "hidden = [64, 64]  # command line",
    "config algorithm.hidden=128": "hidden = [128]  # command line",
    "config stop.rounds=1e3": "rounds = 1000  # command line",
    "config stop.rounds=3.": "rounds = 3  # command line",
    "config algorithm.ent_coef=.03": "ent_coef = 0.03  # command line",
    "config stop.return=-.5e2": "return = -50.0  # command line",
    "config log.to=csv": 'to = ["csv"]  # command line',
    "config log.to=csv,tensorboard": 'to = ["csv", "tensorboard"]  # command line',
    # What bash leaves of log.to=["csv"].
    "config log.to=[csv]": 'to = ["csv"]  # command line',
    "config algorithm.recurrent=True": "recurrent = true  # command line",
    "-V": f"marless {version('marless')}",
    "version": f"marless {version('marless')}",
    "help train": "usage: marless train",
    "train help": "usage: marless train",
}


@pytest.mark.parametrize("old", OLD_NAMES)
def test_an_old_name_works_and_names_the_new(old, capsys):
    assert main([*old.split(), "--help"]) == 0
    assert capsys.readouterr().err.endswith(f" is now {OLD_NAMES[old]}\n")


def answer_to(line, capsys):
    """The only line on standard error of a line that is refused."""
    assert main(shlex.split(line)) == 2
    (said,) = capsys.readouterr().err.splitlines()
    return said


@pytest.mark.parametrize("line", SETTINGS)
def test_a_name_of_another_library_is_answered_with_ours(line, capsys):
    said = answer_to(line, capsys)
    assert said.startswith("marless: the command line: ")
    assert SETTINGS[line] in said


@pytest.mark.parametrize("line", VALUES)
def test_a_value_that_cannot_be_is_answered_with_one_that_can(line, capsys):
    assert VALUES[line] in answer_to(line, capsys)


@pytest.mark.parametrize("line", [*OPTIONS, *COMMANDS])
def test_a_habit_of_other_programs_is_answered_with_the_line_to_type(line, capsys):
    assert (OPTIONS | COMMANDS)[line] in answer_to(line, capsys)


def test_the_file_of_a_study_and_that_of_a_run_are_told_apart(tmp_path, shell, capsys):
    shell.cd(tmp_path)
    (tmp_path / "the study.toml").write_text("base.stop.rounds = 200\nvary.algorithm.lr = [3e-4]\n")
    (tmp_path / "run.toml").write_text("seed = 3\n[stop]\nrounds = 200\n")
    is_a_study = "marless: the study.toml is a study, as it has `base`: marless study 'the study.toml'"
    for command in ("train", "estimate", "config"):
        assert answer_to(f"{command} 'the study.toml'", capsys) == is_a_study
    assert answer_to("study run.toml", capsys) == (
        "marless: run.toml: `seed` is a key of a run; a study has it as base.seed, or names the run's file:"
        ' config = "run.toml"; the run alone: marless train run.toml'
    )
    assert not (tmp_path / "studies").exists()


def test_a_table_of_a_study_is_none_of_a_run():
    """But `base`, which is the base of a run's networks there, as its keys tell."""
    assert {*STUDY_TABLES} <= {*StudyFile.__struct_fields__, *rules_file.KEYS}
    assert {*STUDY_TABLES} & {*RunConfig.__struct_fields__} == {"base"}
    assert not {*Pretrained.__struct_fields__} & {*RunConfig.__struct_fields__}


def test_a_run_may_have_a_base_in_its_file(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('[base]\npolicies = "runs/pre"\nrank = 2\n')
    assert load(path).base == Pretrained(policies="runs/pre", rank=2)


@pytest.mark.parametrize("line", ACCEPTED)
def test_a_form_that_says_what_it_means_is_accepted(line, capsys):
    assert main(shlex.split(line)) == 0
    assert any(said.startswith(ACCEPTED[line]) for said in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize("algorithm", [spec.name for spec in algorithms.ALGORITHMS.ours()])
def test_every_example_is_a_value_that_its_key_may_have(algorithm):
    for key in valid_keys(algorithm):
        kind = key_types(algorithm)[key]
        assert example(key, algorithm) is not None, key
        msgspec.convert(msgspec.to_builtins(example(key, algorithm)), kind)


def test_a_whole_number_that_no_float_holds_is_no_other_number():
    with pytest.raises(ConfigError, match=r"seed: 1e\+17 is not a whole number"):
        load(None, ["seed=1e17"])


def test_every_counterpart_exists():
    keys = {key for name in algorithms.names() for key in valid_keys(name)}
    keys |= {*parser_of("train").options}
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
