"""Small parts of the command line: its files, input and messages."""

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from ablated_runs import empty_line
from hypothesis import given
from hypothesis import strategies as st

from marless import extras
from marless.backends.badge import badge
from marless.cli.app import COMMANDS, OFFERED, main
from marless.cli.arguments import split
from marless.coordinator.config.config_keys import general, valid_keys
from marless.coordinator.config.loading import convert, load
from marless.coordinator.config.schema import Stop
from marless.coordinator.config.toml_dump import document
from marless.coordinator.errors import UserError
from marless.functions.environments import registry as environments
from marless.functions.environments.base import EnvTask
from marless.functions.errors import MissingExtra
from marless.reports.provenance import changes, environment_fingerprint, parts
from marless.reports.text import env_metrics, money, plus_minus, seconds, sparkline, table
from marless.runs.run_store import RunStore
from marless.runs.view import progress, seconds_left


@pytest.mark.parametrize(
    ("dollars", "text"),
    [(0, "$0.00"), (0.000214, "$0.00021"), (0.0021, "$0.0021"), (0.5, "$0.50"), (1.239, "$1.24"), (1234, "$1,234.00")],
)
def test_money_has_two_significant_digits(dollars, text):
    assert money(dollars) == text


@pytest.mark.parametrize(("value", "text"), [(2.71, "2.7 s"), (185, "3:05"), (7385, "2:03:05")])
def test_seconds_become_minutes_and_hours(value, text):
    assert seconds(value) == text


def test_a_return_is_printed_with_half_its_interval():
    # Mean 2, standard deviation 1, n = 3: 4.303 / sqrt(3) = 2.484.
    assert plus_minus([1.0, 2.0, 3.0]) == "2.00 ± 2.48"
    assert plus_minus([1.0]) == "1.00"


def test_own_environment_metrics_are_printed_by_name():
    assert env_metrics({"win": 0.53125, "lost": 2.0}) == "win 0.531, lost 2.000"


def test_a_sparkline_goes_from_lowest_to_highest():
    assert sparkline([0.0, 3.5, 7.0]) == "▁▅█"
    assert sparkline([2.0, 2.0]) == "▁▁"
    assert sparkline([0.0, 5e-324, 1e-323]) == "▁▅█"  # their difference has no reciprocal
    assert sparkline([]) == ""


def test_columns_of_a_table_stand_below_each_other():
    assert table(("a", "b"), [("long", "x")]) == "a     b\nlong  x"


def test_nearest_limit_tells_progress_of_run():
    stop = Stop(rounds=100, dollars=1.0)
    assert progress(stop, empty_line(round=25, dollars=0.5, seconds=30.0)) == 0.5
    assert seconds_left(stop, empty_line(round=25, dollars=0.5, seconds=30.0)) == 30.0
    assert seconds_left(Stop(return_=1.0), empty_line(round=25, seconds=30.0)) is None


SETTINGS = [
    [],
    ["algorithm.name=ippo", "algorithm.lr=3e-4", "algorithm.hidden=[32, 16]"],
    ["task.name=toy/signal", "task.agents=4", "task.options.masked=true", "task.options.horizon=7"],
    ["stop.seconds=0.5", "stop.return=-36", "evaluation.every=5", "pricing.architecture=x86"],
]


@pytest.mark.parametrize("overrides", SETTINGS)
def test_the_printed_configuration_is_the_configuration(overrides):
    config = load(None, overrides)
    assert convert(tomllib.loads(document(config)), "printed") == config


def test_printed_configuration_explains_every_key():
    """The keys of a resource are explained once there is one."""
    lines, table = document(load(None, ["resources.judge.serve=my_judge:grade"])).splitlines(), ""
    found = {}
    for above, text in zip(["", *lines], lines, strict=False):
        if text.startswith("["):
            table = text.strip("[]") + "."
            found[table.rstrip(".")] = above.removeprefix("# ")
        elif " =" in text:
            found[general(table + text.removeprefix("# ").partition(" =")[0])] = above.removeprefix("# ")
    assert {key: found.get(key) for key in valid_keys()} == valid_keys()
    assert all(valid_keys().values())


@given(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs"])), st.floats(allow_nan=False, allow_infinity=False)
)
def test_any_option_of_a_task_survives_being_printed(text, number):
    task = {"name": "toy/signal", "options": {"a key": text, "number": number, "flag": False}}
    config = convert({"task": task}, "test")
    assert convert(tomllib.loads(document(config)), "printed") == config


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "/tmp/x", "a b", "a\n", "latest", "ä", "x" * 101])
def test_a_run_never_leaves_its_place(tmp_path, name):
    with pytest.raises(UserError):
        RunStore(tmp_path / "runs").create(name, "suggestion")
    assert list(tmp_path.iterdir()) == []


def test_runs_without_a_name_get_one_each(tmp_path):
    names = {RunStore(tmp_path).create(None, "spread-mappo-s1").name for _ in range(3)}
    assert len(names) == 3 and all(name.startswith("spread-mappo-s1-2") for name in names)


def test_folder_with_user_files_is_not_taken(tmp_path):
    (tmp_path / "notes").mkdir()
    assert RunStore(tmp_path).create("notes", "").name == "notes"
    (tmp_path / "notes/thoughts.txt").touch()
    with pytest.raises(UserError, match="that is not a run"):
        RunStore(tmp_path).create("notes", "")


def test_a_store_elsewhere_finds_its_latest_run(tmp_path):
    store = RunStore(tmp_path / "anna")
    first = store.create("first", "")
    (first.path / "plan.json").touch()
    first.become_latest()
    assert {store.find(text).name for text in ("latest", "first", str(first.path))} == {"first"}
    assert [folder.name for folder in store.folders()] == ["first"]


def differences(before, after):
    return [str(change) for change in changes(parts("", before), parts("", after))]


def test_run_fingerprint_names_environment_code(tmp_path, shell):
    shell.import_from(tmp_path)
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('looking must not run it')")
    task, ours = EnvTask(name="pettingzoo:my_package.module:make"), EnvTask(name="mpe/simple_spread")
    before = environment_fingerprint(task, "ippo")
    assert before == environment_fingerprint(task, "ippo") and before.environment.startswith("my_package ")
    assert differences(before, environment_fingerprint(task, "ippo")) == []
    (package / "helper.py").write_text("")
    after = environment_fingerprint(task, "ippo")
    assert differences(before, after) == [f"environment was {before.environment} and is {after.environment}"]
    assert environment_fingerprint(ours, "ippo").environment is None


def test_run_fingerprint_names_algorithm_code(tmp_path, shell):
    shell.import_from(tmp_path)
    (tmp_path / "an_algorithm.py").write_text("raise RuntimeError('looking must not run it')")
    (tmp_path / "an_algorithm-1.dist-info").mkdir()
    (tmp_path / "an_algorithm-1.dist-info/METADATA").write_text("Name: an_algorithm\nVersion: 1\n")
    (tmp_path / "an_algorithm-1.dist-info/entry_points.txt").write_text(
        "[marless.algorithms]\nmine = an_algorithm:SPEC\n"
    )
    task = EnvTask(name="mpe/simple_spread")
    before = environment_fingerprint(task, "mine")
    assert before.algorithm.startswith("an_algorithm ")
    (tmp_path / "an_algorithm.py").write_text("SPEC = None")
    (change,) = differences(before, environment_fingerprint(task, "mine"))
    assert change.startswith(f"algorithm was {before.algorithm} and is ")
    assert environment_fingerprint(task, "vdn").algorithm is None


def test_fingerprint_has_torch_version_where_it_computes():
    task = EnvTask(name="mpe/simple_spread")
    plain, other = (environment_fingerprint(task, "vdn", engine) for engine in ("numpy", "torch"))
    assert plain.torch is None and other.torch == version("torch")
    assert differences(plain, other) == [f"torch was None and is {other.torch}"]


def test_file_and_settings_come_in_any_order():
    path, settings = split(["seed=1", "run.toml", "stop.rounds=3"])
    assert (str(path), settings) == ("run.toml", ["seed=1", "stop.rounds=3"])
    assert split([]) == (None, [])


def test_every_command_has_help(capsys):
    assert main([]) == 0
    screen = capsys.readouterr().out
    assert max(map(len, screen.splitlines()[:-1])) <= 80
    _, rows, _ = screen.split("\n\n")
    assert [line[10:20].strip() for line in rows.splitlines()] == [name for name in OFFERED if " " not in name]
    for command, does in COMMANDS.items():
        assert main([*command.split(), "--help"]) == 0
        page = capsys.readouterr().out
        shown, _, _ = page.partition("\noptions:")
        assert does in shown and max(map(len, page.splitlines())) <= 80
        examples = shown.partition("\nexamples:\n")[2].partition("\n\n")[0].splitlines()
        assert sum(f"marless {command}" in line for line in examples) >= 2


@pytest.mark.parametrize(("package", "task"), [("smac", "smac/8m"), ("smacv2", "smacv2/zerg_5_vs_5")])
def test_doctor_explains_starcraft_and_extras_of_packages(capsys, shell, package, task):
    shell.uninstall(package)
    with pytest.raises(MissingExtra) as missing:
        environments.make(EnvTask(name=task), 1)
    command = str(missing.value).partition("not installed: ")[2].partition(";")[0]
    assert f"'{package} @ git+https://github.com/oxwhirl/{package}'" in command
    shell.uninstall("smac", "smacv2", "lbforaging")
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert command in out.partition("to add smac: ")[2].splitlines()[0].split(" or ")
    assert re.search(r"^lbf +lbforaging, to compare with lbf/ +missing$", out, re.MULTILINE)


def test_doctor_prints_what_is_here(capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in ("python", "cores", "memory", "disk free", "learner", "local     ready"))
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["machine"]["program"] == badge().program  # the value that a driver and its workers compare
    assert "python" in found["machine"] and found["extras"].keys() >= {"learner"}
    assert found["backends"]["local"]["ready"] and {"inline", "ray", "emulated", "aws"} < {*found["backends"]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--log-retention", "2"), "argument --log-retention: '2' is not allowed; give a value such as 30"),
        (("--role-path", "company"), "argument --role-path: 'company' is not allowed; give a value such as /company/"),
        (("--event-age", "59"), "argument --event-age: '59' is not a whole number from 60 to 21,600"),
        (("--subnets", "subnet-1"), "--subnets and --security-groups go together: Lambda needs both or neither"),
        (
            ("--print-template", "--tag", "a=1"),
            "--tag and --service-role do not go with --print-template: no template holds them",
        ),
        (("--print-template", "--dry-run"), "argument --dry-run: not allowed with argument --print-template"),
    ],
)
def test_value_invalid_for_cloudformation_is_refused_immediately(options, message, capsys):
    assert main(["cloud", "deploy", "--backend", "emulated", *options]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.startswith(f"marless: {message}"), printed.err.count("\n")) == ("", True, 1)


def test_a_folder_is_no_package(tmp_path, shell):
    """Such as the one that Weights & Biases writes its logs to."""
    (tmp_path / "tensorboardX_of_nobody").mkdir()
    (tmp_path / "package_of_somebody.py").write_text("")
    shell.import_from(tmp_path)
    assert not extras.is_importable("tensorboardX_of_nobody") and extras.is_importable("package_of_somebody")


@pytest.mark.parametrize("command", [["runs"], ["config"]])
def test_commands_without_play_import_no_local_module(tmp_path, command):
    for name in ("org", "_winapi", "msvcrt", "wandb", "mlflow"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')")
    said = subprocess.run(
        [str(Path(sys.executable).parent / "marless"), *command], cwd=tmp_path, capture_output=True, text=True
    )
    assert "imported" not in said.stdout + said.stderr, said.stderr
