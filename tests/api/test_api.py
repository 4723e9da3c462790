"""`import marless`: the public Python API."""

import signal
import subprocess
import sys
import traceback
from importlib import import_module, metadata
from pathlib import Path

import numpy as np
import pytest

import marless
from marless import existing_run, training
from marless.backends import registry
from marless.cli.app import main
from marless.coordinator.config import toml_dump
from marless.runs import train_and_resume
from marless.runs.drive_settings import DriveSettings, RunLocation
from marless.runs.folder import CONFIG, RunFolder
from marless.runs.view import View

# Names that notebooks and plug-ins rely on. Removing one or changing its meaning is a breaking change.
PUBLIC = {
    "marless": "ConfigError Run RunFailed TrainingInterrupted UserError __version__ ablate algorithm benchmark compare"
    " crossplay environment estimate evaluate export judge load_policy open_run plan replay report resume rule"
    " simulate study train",
    "marless.algorithms": "PPO_PARTS PPO_STAGES PPO_SUMMARIES CriticView Merging Ppo PpoConfig"
    " AlgorithmConfig AlgorithmSpec BadRequest Context Implementation LayerNorm Network NetworkConfig Relu StageResult"
    " StageSpec SummaryResult Team Trainable as_base check distribution gae generator group_name mask_logits members"
    " minibatches moments names observations pooling ppo_variant recurrent torch_loss training_samples"
    " updated_statistics",
    "marless.environments": "AgentClass Entities EntityBlock EnvSpec EnvTask EnvironmentFault MissingExtra Observation"
    " Resumable Step TaskFamily Unsupported VectorEnvironment as_pettingzoo check make roles_of spec",
    "marless.language": "LanguageTask Lesson Outcome Symbols Tokenizer Turn beside check make numbers_of same_length"
    " single_tokens",
    "marless.resources": "ResourceFault Resources local",
    "marless.results": "AblationResult Comparison CrossEvaluation Estimate EvaluationResult Exported PairedComparison"
    " RunComparison RunPlan Simulated Simulations StudyResult Summary TeamPolicy Tournament",
    "marless.rules": "BaseRule Bounds DistanceRule GroupingRule LeagueRule PlacementRule Rule ScalingRule SharingMode"
    " TrendRule Work slope",
    "marless.settings": "Actors BC Base Config Evaluation Function Functions HAPPO IDDPG IPPO IQL ISAC League Log"
    " MADDPG MAPPO MASAC Offline Opponents PQN Pipeline Placement Pricing QMIX QPLEX Resource Scaling Sharing Stop Task"
    " Trend VDN",
    "marless.loggers": "LoggedRun Logger Point Writer logger names",
    "marless.backends": "Backend Connection FileStorage Invoker Ledger LocalBackend Part Platform Readiness"
    " RemoteBackend Report SqliteLedger Storage WorkerPool backend names",
}


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_stay(module):
    loaded = import_module(module)
    assert sorted(loaded.__all__) == sorted(PUBLIC[module].split())
    assert all(getattr(loaded, name).__doc__ for name in loaded.__all__)


def test_types_ship_and_completion_offers_public_names():
    modules = [name.partition(".")[2] for name in PUBLIC if "." in name]
    assert dir(marless) == sorted([*PUBLIC["marless"].split(), *modules, *PUBLIC["marless.settings"].split()])
    assert dir(marless.environments) == sorted(PUBLIC["marless.environments"].split())
    assert marless.__version__ == metadata.version("marless")
    assert Path(marless.__file__).with_name("py.typed").is_file()


def test_importing_it_loads_nothing_heavy():
    code = "import sys, marless; print([name for name in sys.modules if name.startswith(tuple(sys.argv[1:]))])"
    heavy = ["torch", "matplotlib", "boto3", "botocore", "marless.", "pettingzoo", "rich"]
    done = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_run_is_trained_read_played_and_resumed(small):
    run = marless.train(small, run="one", quiet=True, seed=7)
    assert (run.name, run.summary.status, run.summary.rounds, run.summary.seed) == ("one", "finished", 2, 7)
    assert [row["round"] for row in run.metrics()] == [1, 2]
    assert [(found.step_count, len(found.returns)) for found in run.evaluations()] == [(200, 4)]
    seen = {name: np.zeros(kind.observation_size) for kind in run.policy().spec.classes for name in run.policy().agents}
    assert run.policy().act(seen) == marless.load_policy("runs/one").act(seen)
    assert run.policy(best=True).agents == run.policy().agents
    longer = marless.resume(run, stop={"rounds": 3}, quiet=True)
    assert longer.summary.rounds == 3 and marless.open_run("latest").path == longer.path
    played = marless.evaluate("one", episodes=6)
    assert played == run.evaluate(episodes=6)
    assert repr(played).startswith("<EvaluationResult: one, policies of round ")
    assert f"{played.returns.mean:.2f}</td>" in played._repr_html_() and "agent_2</td>" in played._repr_html_()
    short = run.evaluate(episodes=6, task={"options": {"max_cycles": 1}})
    assert played.returns.mean < short.returns.mean < 0  # every step costs
    assert played.returns.episodes == 6 and run.folder == run.path
    sampled, greedy = (marless.evaluate(run, episodes=6, greedy=value) for value in (False, True))
    assert "sampled actions" in sampled.headline and greedy.returns == played.returns != sampled.returns
    saved = marless.load_policy(run.policy().save("team.zip"))
    games = saved.play(marless.environments.as_pettingzoo("mpe/simple_spread"), episodes=2)
    again = marless.load_policy(run.policy().save("team"))
    assert games == again.play(marless.environments.as_pettingzoo("mpe/simple_spread"), episodes=2)
    with pytest.raises(marless.UserError, match="play an environment, such as marless"):
        again.play("mpe/simple_spread")
    assert len(games) == 2 and max(games) < 0


def test_file_mapping_and_command_give_same_weights(small, home):
    (home / "my.toml").write_text("seed = 3\n[actors]\nnum_envs = 4\n[stop]\nrounds = 9\n")
    rest = {"evaluation": small["evaluation"], "stop": {"rounds": 1}}
    by_file = marless.train("my.toml", quiet=True, **rest)
    by_mapping = marless.train({"seed": 3, "actors": {"num_envs": 4}}, quiet=True, **rest)
    words = ["evaluation.every=2", "evaluation.episodes=4", "evaluation.final_episodes=4", "stop.rounds=1"]
    assert main(["train", "my.toml", *words, "--run", "command"]) == 0
    runs = (by_file, by_mapping, marless.open_run("command"))
    assert len({run.summary.weights_sha256 for run in runs}) == 1


def test_quiet_run_prints_nothing_and_other_like_command(small, capsys):
    marless.train(small, quiet=True)
    assert capsys.readouterr() == ("", "")
    run = marless.train(small)
    assert f"run {run.name}" in capsys.readouterr().out


def test_result_is_exported_reported_and_cross_played(small):
    run = marless.train(small, quiet=True, workers=2, task={"name": "mpe/simple_tag"})
    exported = marless.export(run, "safetensors", "policies")
    assert all((exported.folder / name).stat().st_size == size for name, size in exported.files.items())
    assert "policies.safetensors" in exported.files
    assert marless.export(run, "npz", episodes=2).folder == Path("exports") / f"{run.name}-npz"
    # Played again on one slot, where one learner names the metrics of all groups.
    sampled = marless.export(run, "npz", "sampled", rounds=(1, 2), workers=1)
    assert set(np.load("sampled/episodes.npz")["round"]) == {1, 2} and sampled.line.endswith("played again")
    assert f"<title>{run.name}" in marless.report(run, "page.html").read_text()
    played = marless.crossplay(run, "random", episodes=2, out="games")
    assert played.teams == (str(run.path), "random") and played.scores[1][1] == 0.5
    assert repr(played) == "<Tournament: mpe/simple_tag, greedy, 2 episodes of each pair and side>"
    assert "random</td>" in played._repr_html_() and "<p>mean return of agent, played by" in played._repr_html_()
    assert Path("games/crossplay.json").is_file()


def test_impossible_export_or_report_is_one_line(small):
    run = marless.train(small, quiet=True)
    with pytest.raises(marless.UserError, match="there is no format gguf; known are onnx"):
        marless.export(run, "gguf")
    with pytest.raises(marless.UserError, match="name a file such as"):
        marless.report(run, "runs")
    with pytest.raises(marless.UserError, match="an interval needs 2"):
        marless.crossplay(run, "random", episodes=1)


def test_run_row_policies_and_picture_are_shown(small, home):
    run = marless.train(small, run="one", quiet=True)
    figures = run.summary.final_return
    half = (figures.ci95[1] - figures.ci95[0]) / 2
    assert repr(run).startswith(f"<Run runs/one: finished, 2 rounds, return {figures.mean:.1f} ± {half:.1f}, $0.0")
    assert "<td" in run._repr_html_() and 'src="data:image/svg+xml;base64,' in run._repr_html_()
    assert repr(run.policy()) == "<TeamPolicy of agent_0, agent_1, agent_2 on mpe/simple_spread>"
    assert repr(run.evaluations()[0]).startswith("<Evaluation after 200 steps, 4 episodes: mean return -")
    gone = marless.Run("runs/gone")
    assert (repr(gone), gone._repr_html_()) == ("<Run runs/gone: it cannot be read>", None)
    assert run.plot()._repr_png_().startswith(b"\x89PNG")
    axes = run.plot().axes[0]
    assert axes.get_title(loc="left") == "mappo on mpe/simple_spread, seed 1"
    assert axes.get_xlabel() == "environment steps"
    assert {"round", "return_mean", "dollars"} <= run.metrics()[0].keys()


def test_run_reads_files_by_name_or_folder(small):
    run = marless.train(small, run="one", quiet=True)
    for by_name in (marless.Run("one"), marless.Run("latest")):
        assert by_name.metrics() == run.metrics() != []
        assert by_name.evaluations() == run.evaluations()
        assert by_name.policy().agents == run.policy().agents


def test_a_frame_needs_pandas_and_says_so(small, shell):
    run = marless.train(small, quiet=True)
    shell.uninstall("pandas")
    with pytest.raises(marless.UserError, match=r"run\.frame\(\) needs pandas, which is not installed: .*\[notebook\]"):
        run.frame()


def test_a_cell_that_trains_is_run_again(small):
    first = marless.train(small, run="one", quiet=True)
    with pytest.raises(marless.UserError, match="there is a run one already: pass exist='resume' to continue"):
        marless.train(small, run="one", quiet=True)
    again = marless.train(small, run="one", exist="resume", quiet=True)
    assert again.summary == first.summary
    longer = marless.train(small, run="one", exist="resume", quiet=True, stop={"rounds": 3})
    assert longer.summary.rounds == 3
    with pytest.raises(marless.UserError, match=r"one was trained with seed=1, not 2, so it cannot go on"):
        marless.train(small, run="one", exist="resume", quiet=True, seed=2)
    assert marless.train(small, run="one", exist="replace", quiet=True, seed=2).summary.seed == 2
    for exist, run in (("resume", None), ("keep", "one")):
        with pytest.raises(marless.UserError, match=f"exist='{exist}'"):
            marless.train(small, run=run, exist=exist)


def test_earlier_run_continues_with_own_evaluation_sizes(small):
    task = {"task": {"name": "pettingzoo:some.module:make"}}
    folder = RunFolder(marless.train(small, run="one", quiet=True).path)
    short = training.configuration(task, {"stop": {"rounds": 3}, "evaluation": {"final_episodes": 160}})
    longer = training.configuration(task, {"stop": {"rounds": 400}})
    folder.write(CONFIG, toml_dump.document(short).encode())
    assert existing_run.new_limits(folder, longer, ["task.name", "stop.rounds"], "local") == ["stop.rounds=400"]
    with pytest.raises(marless.UserError, match=r"evaluation\.final_episodes=160, not null"):
        existing_run.new_limits(folder, longer, ["evaluation.final_episodes"], "local")


@pytest.mark.parametrize("name", ["../runs/one", "latest", "/one"])
def test_replaced_run_is_named_like_new_run(small, home, name):
    marless.train(small, run="one", quiet=True)
    with pytest.raises(marless.UserError, match="a run's name has letters"):
        marless.train(small, run=name, exist="replace", quiet=True)
    (home / "runs" / "link").symlink_to("one")
    with pytest.raises(marless.UserError, match="is a link, which exist='replace' does not delete"):
        marless.train(small, run="link", exist="replace", quiet=True)
    assert sorted(path.name for path in (home / "runs").iterdir()) == ["latest", "link", "one"]


def test_unreplaceable_run_stays(small, home):
    first = marless.train(small, run="one", quiet=True)
    with pytest.raises(marless.UserError, match="no_such_module"):
        marless.train(
            {**small, "task": {"name": "pettingzoo:no_such_module:make"}}, run="one", exist="replace", quiet=True
        )
    assert marless.open_run("one").summary == first.summary
    assert sorted(path.name for path in (home / "runs").iterdir()) == ["latest", "one"]


def test_packages_are_requested_before_folder_exists(small, home, shell):
    shell.uninstall("torch")
    with pytest.raises(
        marless.UserError, match=r"algorithm\.engine=torch needs packages that are not installed: .*learner"
    ):
        marless.train(small, algorithm={"engine": "torch"})
    with pytest.raises(marless.UserError, match=r"algorithm\.device=cuda needs packages that are not installed"):
        marless.train(small, algorithm={"device": "cuda"})
    with pytest.raises(marless.UserError, match=r"algorithm\.network=cnn needs packages"):
        marless.train(small, algorithm={"network": "cnn"})
    assert list(home.iterdir()) == []


class InterruptingView(View):
    def round(self, plan, line):
        signal.raise_signal(signal.SIGINT)


def test_interrupt_stops_run_cleanly_and_later_cells(small, home):
    stop = {"rounds": 50}
    drive = DriveSettings(1, InterruptingView, 0.0)
    with pytest.raises(
        KeyboardInterrupt, match=r"stopped after 1 round; go on with: marless\.resume\('one'\)"
    ) as stopped:
        training.run_of(
            *train_and_resume.train(
                training.configuration(small, {"stop": stop}), RunLocation(registry.backend("local")), drive, "one"
            )
        )
    assert stopped.type is marless.TrainingInterrupted
    assert stopped.value.result.summary.status == "interrupted"
    assert marless.resume("one", stop={"rounds": 2}, quiet=True).summary.status == "finished"


def test_errors_show_only_lines_of_caller(small):
    with pytest.raises(marless.UserError) as raised:
        marless.train(small, backend="moon")
    frames = traceback.extract_tb(raised.tb)
    assert [Path(frame.filename).name for frame in frames] == ["test_api.py", "user_errors.py"]
    assert raised.value.__suppress_context__


def test_errors_are_one_line(small):
    for says, call in {
        r"there is no key algorithm\.learning_rate": lambda: marless.train(algorithm={"learning_rate": 1e-3}),
        "no back-end moon; known are local, inline, emulated, aws, ray": lambda: marless.train(small, backend="moon"),
        "detach needs a back-end with deployments: emulated, aws": lambda: marless.estimate(small, detach=True),
        "a plan needs a back-end with deployments: emulated, aws": lambda: marless.plan(small, backend="local"),
        "callbacks is a list": lambda: marless.train(small, callbacks=print),
        "functions that take the row of a round": lambda: marless.train(small, callbacks=["stop_early"]),
        "write @marless.environment alone, above a class": lambda: marless.environment("meadow"),
        "Team is no run: .* folder; policies play by": lambda: marless.evaluate(type("Team", (), {"play": None})()),
        "leave task and greedy away": lambda: marless.evaluate("one", against="random", greedy=False),
        "PPO has no stage loss; its stages are postprocess": lambda: marless.algorithms.ppo_variant(loss=print),
    }.items():
        with pytest.raises((marless.ConfigError, marless.UserError, ValueError), match=says):
            call()


def test_an_estimate_has_rounds_seconds_and_dollars(small):
    found = marless.estimate(small, stop={"rounds": 2})
    assert found.rounds == 2
    assert found.seconds > 0 and found.dollars == float(found.bill.total) > 0
    assert repr(found).startswith("<Estimate: 2 rounds, about ") and "total</td>" in found._repr_html_()


def test_a_recorded_run_is_simulated_with_more_rollouts(small):
    run = marless.train({**small, "stop": {"rounds": 4}}, quiet=True)
    simulations = marless.simulate(run, [2, 4], rounds=3, concurrency=7)
    assert repr(simulations) == "<Simulations: 2 simulations, 7 functions at once>"
    assert all(text in simulations._repr_html_() for text in ("coordinator ms</th>", "2</td>", "4</td>"))
    few, many = simulations
    assert repr(few).startswith("<Simulated: 3 rounds, 0.")
    assert few.state.controller.rollouts == 2 and many.state.controller.rollouts == 4
    assert 0 < few.dollars < many.dollars
    for faults in ({"lost": 2.0}, {"late": 0.1}):
        with pytest.raises(marless.UserError, match="not shares from 0 to 1 of slow, cold, throttled, lost"):
            marless.simulate(run, faults=faults)
    with pytest.raises(marless.UserError, match="rollouts: 0 is not a number from 1"):
        marless.simulate(run, [2, 0])
    with pytest.raises(marless.UserError, match="at least 3 rounds"):
        marless.simulate(run, rounds=2)


def test_failed_run_is_named_with_its_run(small, home, shell):
    (home / "failing.py").write_text(
        "from mpe2 import simple_spread_v3\n"
        "def make(**options):\n"
        "    env = simple_spread_v3.parallel_env(**options)\n"
        "    env.step = lambda actions: 1 / 0\n"
        "    return env\n"
    )
    shell.import_from(home)
    with pytest.raises((marless.RunFailed, marless.UserError), match="division by zero"):
        marless.train({**small, "task": {"name": "pettingzoo:failing:make"}}, quiet=True, attempts=1)


def test_a_callback_reads_rows_and_stops_the_run(small, capsys):
    rows = []

    def stop_early(row):
        rows.append(row)
        row["return_mean"] = "changed"
        return row["round"] == 2

    settings = {**small, "stop": {"rounds": 4}}
    run = marless.train(settings, run="one", quiet=True, callbacks=[stop_early])
    assert (run.summary.status, run.summary.rounds, [row["round"] for row in rows]) == ("interrupted", 2, [1, 2])
    again, whole = marless.resume(run), marless.train(settings, quiet=True)
    assert "callbacks so far: test_a_callback_reads" in capsys.readouterr().err
    assert again.summary.weights_sha256 == whole.summary.weights_sha256
