"""Typical input of users of other libraries and programs, and the lines that answer it."""

import shlex
import tomllib
from importlib.metadata import version
from pathlib import Path

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

TABLES = tomllib.loads(Path(__file__).with_name("typed_mistakes.toml").read_text("utf-8"))
SETTINGS, VALUES, OPTIONS, COMMANDS, ACCEPTED = TABLES.values()


def answer_to(line, capsys):
    """The only line on standard error of a line that is refused."""
    assert main(shlex.split(line)) == 2
    (said,) = capsys.readouterr().err.splitlines()
    return said


@pytest.mark.parametrize("line", SETTINGS)
def test_foreign_library_name_is_answered_with_ours(line, capsys):
    start, _, rest = answer_to(line, capsys).partition("marless: the command line: ")
    assert start == "" and SETTINGS[line] in rest


@pytest.mark.parametrize("line", VALUES)
def test_impossible_value_is_answered_with_possible_value(line, capsys):
    assert VALUES[line] in answer_to(line, capsys)


@pytest.mark.parametrize("line", [*OPTIONS, *COMMANDS])
def test_habit_of_other_programs_gets_line_to_type(line, capsys):
    assert (OPTIONS | COMMANDS)[line] in answer_to(line, capsys)


def test_files_of_study_and_run_are_distinguished(tmp_path, shell, capsys):
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


def test_study_table_is_refused_in_run():
    """But `base`, which is the base of a run's networks there, as its keys tell."""
    assert {*STUDY_TABLES} <= {*StudyFile.__struct_fields__, *rules_file.KEYS}
    assert {*STUDY_TABLES} & {*RunConfig.__struct_fields__} == {"base"}
    assert not {*Pretrained.__struct_fields__} & {*RunConfig.__struct_fields__}


def test_run_file_may_have_base(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('[base]\npolicies = "runs/pre"\nrank = 2\n')
    assert load(path).base == Pretrained(policies="runs/pre", rank=2)


@pytest.mark.parametrize("line", ACCEPTED)
def test_unambiguous_form_is_accepted(line, capsys):
    assert main(shlex.split(line)) == 0
    expected = ACCEPTED[line].replace("VERSION", version("marless"))
    assert any(said.startswith(expected) for said in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize("algorithm", [spec.name for spec in algorithms.ALGORITHMS.ours()])
def test_every_example_is_valid_for_its_key(algorithm):
    for key in valid_keys(algorithm):
        kind = key_types(algorithm)[key]
        assert example(key, algorithm) is not None, key
        msgspec.convert(msgspec.to_builtins(example(key, algorithm)), kind)


def test_whole_number_beyond_floats_stays_exact():
    with pytest.raises(ConfigError, match=r"seed: 1e\+17 is not a whole number"):
        load(None, ["seed=1e17"])


def test_every_counterpart_exists():
    keys = {key for name in algorithms.names() for key in valid_keys(name)}
    keys |= {*parser_of("train").options}
    for name, counterpart in COUNTERPARTS.items():
        assert counterpart.here or counterpart.note, name
        for here in counterpart.here:
            assert here.partition("=")[0] in keys or here.startswith("task.options."), name


def test_foreign_name_means_same_in_every_library():
    for library, names in PEERS.items():
        for name, counterpart in names.items():
            assert COUNTERPARTS[name] == counterpart, (library, name)


def test_own_keys_are_never_answered_as_foreign():
    """A name of one algorithm may have another meaning in another library. `batch_size` is an example."""
    everywhere = set.intersection(*(set(valid_keys(name)) for name in algorithms.names()))
    assert not everywhere & COUNTERPARTS.keys()
