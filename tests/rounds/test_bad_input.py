"""Every error is one line to the user: the command is refused, or the run stops and is resumable."""

import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from commands import SMALL, Commands
from msgspec.structs import replace

from marless.coordinator.drive.ledger_items import StateEncoder, decode_state
from marless.infra.local.sqlite_ledger import SqliteLedger
from marless.reports import provenance
from marless.runs.run_store import RUNS

PETTINGZOO = "pettingzoo:bad_environments:"


@pytest.fixture
def marless(tmp_path, shell, capfd, no_processes):
    shell.cd(tmp_path)
    (tmp_path / "broken.toml").write_text("seed = = 1\n")
    return Commands(capfd)


def the_line(said):
    """The only line on standard error. Fails if there is more, such as a traceback."""
    assert len(said.err) == 1, said.err
    assert said.err[0].startswith("marless: ")
    return said.err[0]


# One mistake for each check. The others are in tests/unit/cli and tests/unit/core.
REFUSED = {
    "a file that is not there": (["nowhere.toml"], "there is no file nowhere.toml"),
    "a file that is not TOML": (["broken.toml"], "broken.toml is not valid TOML"),
    "two files": (["run.toml", "broken.toml"], "'broken.toml' is not key=value"),
    "a value of another type": (["seed=three"], "seed: 'three' is not a whole number, such as seed=1"),
    "an unknown task": (["task.name=mpe/simple_spred"], "did you mean mpe/simple_spread?"),
    "a cap that cannot be kept": (["stop.dollars=1", "pricing.storage=express"], "a cap cannot be kept"),
    "no workers": (["--workers", "0"], "is not a positive whole number"),
    "an unknown option": (["--fast"], "--fast"),
    "an unknown back-end": (["--backend", "mainframe"], "mainframe"),
    "a run that leaves runs/": (["--run", "../elsewhere"], "a run's name has letters"),
    "a run that is hidden": (["--run", ".hidden"], "a run's name has letters"),
    "a run called latest": (["--run", "latest"], "is not 'latest'"),
    "too few agents": (["task.agents=1"], "task.agents is 1"),
    "an unknown task option": (["task.options.colour=1"], "colour"),
    "a module that is not there": (["task.name=pettingzoo:no_such_module:env"], "no_such_module"),
    "a factory that is not there": ([f"task.name={PETTINGZOO}nothing"], "nothing"),
    "spaces that do not fit": ([f"task.name={PETTINGZOO}Continuous", "algorithm.name=iql"], "acts in numbers"),
    "less than an episode": (
        ["actors.rollout_length=3", "algorithm.recurrent=true"],
        "3 steps are less than an episode",
    ),
    "an unknown option of evaluations": (
        ["evaluation.options.colour=1"],
        "toy/signal: evaluation.options: there is no",
    ),
    "an option of evaluations of another type": (
        ["evaluation.options.signals=many"],
        "toy/signal: evaluation.options.signals: a text is not a whole number",
    ),
    "options of evaluations that are no table": (["evaluation.options=3"], "evaluation.options: 3 is not a table"),
    "evaluations with other spaces": (
        ["evaluation.options.signals=4"],
        "evaluation.options: agent_0 has observations of 4 numbers and 4 actions, and in training observations of 3",
    ),
    "evaluations with other masks": (["evaluation.options.masked=true"], "the form of observations and actions"),
    "opponents that are not there": (["opponents.side=0"], "on one side; leave it out"),
    "a cap that pays for nothing": (["stop.dollars=0.000001"], "stop.dollars = 1e-06 is less than a first attempt"),
}


@pytest.mark.parametrize("wrong", REFUSED)
def test_impossible_run_is_refused_and_leaves_nothing(marless, wrong):
    settings, expected = REFUSED[wrong]
    first = [] if any(text.endswith(".toml") for text in settings) else list(SMALL)
    said = marless("train", *first, *settings)
    assert said.code == 2
    assert expected in the_line(said) and "resume" not in the_line(said)
    assert said.out == []
    assert not Path("runs").exists() or list(Path("runs").iterdir()) == []


def test_missing_package_is_named_with_install_command(marless, processes, tmp_path, shell):
    shim = tmp_path / "shim" / "pettingzoo.py"
    shim.parent.mkdir()
    shim.write_text("raise ModuleNotFoundError(\"No module named 'pettingzoo'\", name='pettingzoo')\n")
    shell.import_from(shim.parent)
    said = marless.train("extra", "task.name=pettingzoo:mpe2.simple_spread_v3:parallel_env")
    assert said.code == 2
    assert "pip install" in the_line(said)


FAULTS = {
    "Raises": "the simulator lost its map",
    "Hangs": "ran longer than its time-out of 4 s",
    "Exits": "exit status 3",
    "NotANumber": "the reward of agent 'a' is not finite",
    "Forges": "was written by task somebody/000000/else",
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("fault", FAULTS)
def test_an_environment_that_breaks_stops_the_run_resumably(marless, processes, fault):
    name = "forged" if fault == "Forges" else fault
    # Only hanging environments need the time-out.
    limit = f"functions.actor.timeout_s={4 if fault == 'Hangs' else 60}"
    said = marless.train(name, f"task.name={PETTINGZOO}{fault}", "attempts=1", limit)
    assert said.code == 1
    assert FAULTS[fault] in the_line(said)
    change = "" if fault in ("Hangs", "Exits", "Forges") else " --changed-code"
    assert said.err[0].endswith(f"; go on with: marless resume {name}{change}")
    if fault == "Raises":
        assert f"(fix the environment; its traceback: runs/{name}/workers); " in said.err[0]
        tracebacks = [path.read_text() for path in Path("runs", name, "workers").glob("*.log")]
        assert any("bad_environments.py" in text and FAULTS[fault] in text for text in tracebacks)
    again = marless("resume", name, "--workers", "1")
    assert again.code == 1
    assert FAULTS[fault] in the_line(again)


def test_diverged_run_gets_hint_to_learn_slower(marless):
    said = marless.train("first", "algorithm.name=iql", "algorithm.lr=1e30")
    assert said.code == 1
    assert "holds NaN or infinity; a resume would repeat it; try lower learning rates (algorithm.lr," in the_line(said)
    assert "marless resume" not in the_line(said)
    assert the_line(marless("resume", "first", "--workers", "1")) == the_line(said)
    stands = marless("status", "first").out
    assert stands[-1].split(maxsplit=1) == [
        "advice",
        "try lower learning rates (algorithm.lr, and algorithm.critic_lr if the algorithm has it) in a new run",
    ]
    assert not any("marless resume" in line for line in stands)


def edit(name, change):
    path = Path("runs/first") / name
    path.write_bytes(change(path.read_bytes()))


def edit_the_configuration(monkeypatch):
    edit("config.toml", lambda body: body.replace(b"gamma = 0.9", b"gamma = 0.8"))


def change_the_code(monkeypatch):
    monkeypatch.setattr(provenance, "code_sha256", lambda: "another")


def update_numpy(monkeypatch):
    monkeypatch.setattr(provenance, "version", lambda package: "1.0")


def damage_every_object(monkeypatch):
    for path in Path("runs/first/objects").rglob("*.safetensors"):
        path.write_bytes(path.read_bytes()[:-1] + b"?")


def lose_every_object(monkeypatch):
    shutil.rmtree("runs/first/objects")


def lose_the_plan(monkeypatch):
    Path("runs/first/plan.json").unlink()


def scribble_into_the_plan(monkeypatch):
    edit("plan.json", lambda body: b"{}")


def scribble_into_the_ledger(monkeypatch):
    for path in Path("runs/first").glob("ledger.sqlite*"):
        path.write_bytes(b"no database at all" * 1000)


def record_a_key_outside(monkeypatch):
    """As a broken worker had it done in an earlier version."""
    with closing(SqliteLedger(Path("runs/first/ledger.sqlite"))) as ledger:
        for item in ("state", "checkpoint"):
            record = ledger.load(item)
            state = decode_state(record.body)
            objects = tuple(replace(ref, key=f"../../../{ref.key}") for ref in state.objects)
            changed = replace(state, objects=objects)
            ledger.commit(item, StateEncoder(changed).encode(changed), record.version)


def nothing(monkeypatch):
    pass


MORE = ("resume", "first", "stop.rounds=6")
DAMAGES = {
    "an unknown run": (nothing, ("resume", "second"), "there is no run second"),
    "a run that exists": (nothing, ("train", "--run", "first"), "there is a run first already"),
    "nothing left to train": (nothing, ("resume", "first"), "marless resume first stop.rounds=8"),
    "a lower limit": (nothing, ("resume", "first", "stop.rounds=2"), "raise the limit with"),
    "another setting": (nothing, (*MORE, "seed=2"), "seed=2: a run keeps its configuration"),
    "a changed configuration": (edit_the_configuration, MORE, "config.toml was edited after the run began"),
    "a changed program": (
        change_the_code,
        MORE,
        "; go back to that, start a new run, or continue with the changed code",
    ),
    "another numpy": (update_numpy, MORE, "and is 1.0; go back to that"),
    "a corrupted object": (damage_every_object, MORE, "is not the object the run recorded"),
    "a corrupted object to play": (damage_every_object, ("evaluate", "first"), "is not the object the run recorded"),
    "a key outside of the run": (record_a_key_outside, MORE, "is not a key"),
    "a key outside of the run to play": (record_a_key_outside, ("evaluate", "first"), "marless runs verify first"),
    "a lost object": (lose_every_object, MORE, "is missing"),
    "lost objects to play": (lose_every_object, ("evaluate", "first"), "marless runs verify first"),
    "a lost plan": (lose_the_plan, MORE, "is not a run"),
    "a damaged plan": (scribble_into_the_plan, MORE, "plan.json cannot be read"),
    "a damaged ledger": (scribble_into_the_ledger, MORE, "it is not a ledger"),
    "a damaged ledger to look at": (scribble_into_the_ledger, ("status", "first"), "it is not a ledger"),
}


@pytest.mark.parametrize("wrong", DAMAGES)
def test_tampered_run_is_refused_in_one_line(marless, trained, monkeypatch, wrong):
    damage, command, expected = DAMAGES[wrong]
    shutil.copytree(trained, "runs", symlinks=True)
    damage(monkeypatch)
    said = marless(*command)
    assert said.code == 2
    assert expected in the_line(said)


def test_key_outside_run_is_one_line_of_verify(marless, trained, monkeypatch):
    shutil.copytree(trained, "runs", symlinks=True)
    record_a_key_outside(monkeypatch)
    said = marless("runs", "verify", "first")
    assert said.code == 1 and len(said.out) == 1 and "is not a key" in said.out[0]


def test_edited_environment_is_named_on_resume(marless, processes, tmp_path):
    module = tmp_path / "my_environments.py"
    module.write_text("from bad_environments import Sound\n")
    settings = ("task.name=pettingzoo:my_environments:Sound", "--run", "first", "--workers", "1")
    assert marless("train", *SMALL, *settings).code == 0
    assert marless(*MORE).code == 0
    module.write_text("from bad_environments import Sound  # better\n")
    said = marless("resume", "first", "stop.rounds=8")
    assert said.code == 2
    assert "environment was my_environments " in the_line(said)


def test_storage_failure_in_first_round_keeps_paid_run(marless):
    said = marless.train("blocked", f"task.name={PETTINGZOO}Blocks")
    assert said.code == 2
    assert "a file stands where a folder is needed" in the_line(said)
    assert Path("runs/latest").resolve() == Path("runs/blocked").resolve()
    Path("runs/blocked/objects/rounds/000000/sample").unlink()
    again = marless("resume", "latest", "--workers", "1")
    assert "marless resume blocked" in the_line(again)


def test_run_with_removed_objects_ends_with_advice(marless):
    said = marless.train("lost", f"task.name={PETTINGZOO}Loses")
    assert said.code == 2
    line = the_line(said)
    assert "is missing; it was deleted or lost; restore it from a copy" in line
    assert line.endswith("or go back to the last checkpoint with: marless resume lost")


# Refused where networks are built, and by the coordinator once the task is described.
IMPOSSIBLE = ["algorithm.network=cnn", "opponents.side=0"]


@pytest.mark.parametrize("setting", IMPOSSIBLE)
def test_refused_run_keeps_latest_and_frees_its_name(marless, setting):
    assert marless.train("first").code == 0
    assert marless.train("second", setting).code == 2
    assert Path("runs/latest").readlink() == Path("first")
    assert not Path("runs/second").exists()
    assert not any(line.startswith("second") for line in marless("runs").out)
    assert marless.train("second").code == 0


@pytest.mark.parametrize("setting", IMPOSSIBLE)
def test_run_impossible_to_resume_is_refused_and_kept(marless, monkeypatch, setting):
    with monkeypatch.context() as broken:
        broken.setattr("marless.runs.session.Session.begin", lambda *arguments: 1 // 0)
        assert marless.train("first", setting).code == 70
    for _ in range(2):
        said = marless("resume", "first", "--workers", "1")
        assert said.code == 2 and "marless resume" not in the_line(said)
        assert Path("runs/first/plan.json").exists()
        assert not Path("runs/latest").is_symlink()


def test_a_run_has_one_driver(marless):
    assert marless.train("first").code == 0
    with RUNS.find("first").driving():
        said = marless(*MORE)
    assert said.code == 2
    assert f"is in use by another process (pid {os.getpid()})" in the_line(said)
    assert marless(*MORE).code == 0


def test_a_full_disk_stops_a_run_resumably(marless):
    source = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000));"
        "from marless.cli.app import main; sys.exit(main())"
    )
    paths = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", source, "train", *SMALL, "stop.rounds=30", "--run", "full", "--workers", "1"]
    ended = subprocess.run(command, env=paths, capture_output=True, text=True)
    assert ended.returncode == 2
    assert "marless resume full" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert marless("resume", "full", "--workers", "1").code == 0


def test_unexpected_error_is_one_line_with_stored_traceback(marless, monkeypatch):
    def surprise(*arguments):
        raise ZeroDivisionError("nobody thought of this")

    monkeypatch.setattr("marless.runs.session.Session.begin", surprise)
    said = marless.train("first")
    assert said.code == 70
    assert the_line(said) == (
        "marless: internal error: ZeroDivisionError: nobody thought of this (details in runs/first/error.log)"
    )
    assert "Traceback" in Path("runs/first/error.log").read_text()


def test_unexpected_error_without_folder_is_stored_elsewhere(marless, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("marless.cli.commands.checks.doctor.run", lambda options: 1 // 0)
    lines = {the_line(marless("doctor")) for _ in range(2)}
    logs = list(tmp_path.glob("marless-error-*.log"))
    assert len(lines) == len(logs) == 2
    assert all("Traceback" in log.read_text() and any(str(log) in line for line in lines) for log in logs)
