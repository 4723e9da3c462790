"""Local commands work without the AWS SDK and the emulated account. Other commands name the missing package."""

import subprocess
import sys
from pathlib import Path

import pytest

from marless.cli.command_names import COMMANDS, OLD_COMMANDS

ROOT = Path(__file__).parents[2]
# Runs commands, one a line, without the packages that the extras `aws` and `emulated` bring, and prints their codes.
PROGRAM = """
import importlib.machinery, shlex, sys

class Filtered(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        absent = ("boto3", "botocore", "s3transfer", "aws_lambda_powertools", "aws_emulator", "moto", "awslambdaric")
        return None if name.partition(".")[0] in absent else super().find_spec(name, path, target)

sys.meta_path = [Filtered if finder is importlib.machinery.PathFinder else finder for finder in sys.meta_path]
from marless.cli.app import main
print([main(shlex.split(line)) for line in sys.stdin], file=sys.stderr)
"""
SETTINGS = (
    "task.name=toy/corridor actors.num_envs=2 actors.rollout_length=10 stop.rounds={rounds}"
    " evaluation.episodes=2 evaluation.final_episodes=2"
)
STUDY = """
seeds = "1-2"
pool.workers = 1
base.task.name = "toy/corridor"
base.actors.num_envs = 2
base.actors.rollout_length = 10
base.stop.rounds = 1
base.evaluation.final_episodes = 2
"""


def run(folder, *commands):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=folder,
        input="\n".join(commands),
        capture_output=True,
        text=True,
        timeout=600,
    )
    *errors, codes = done.stderr.splitlines()
    return codes, errors, done.stdout


def test_help_and_doctor_need_no_extra(tmp_path):
    lines = (*(f"{command} --help" for command in (*COMMANDS, *OLD_COMMANDS)), "doctor")
    assert run(tmp_path, *lines)[0] == str([0] * len(lines))


@pytest.mark.slow
def test_a_laptop_trains_resumes_studies_exports_and_reports(tmp_path):
    (tmp_path / "small.toml").write_text(STUDY)
    commands = (
        f"train --backend inline --run one {SETTINGS.format(rounds=1)}",
        "resume one stop.rounds=2",
        "status one",
        "study small.toml",
        "export one --to safetensors",
        "report one",
        "estimate --backend aws " + SETTINGS.format(rounds=1),
    )
    codes, errors, _ = run(tmp_path, *commands)
    assert codes == str([0] * len(commands)), errors


def test_what_needs_aws_says_what_to_install(tmp_path):
    sdk = f"pip install -e '{ROOT}[aws]'"
    emulator = f"pip install -e {ROOT}/packages/aws-emulator -e '{ROOT}[emulated]'"
    lacks, settings = "packages that are not installed", SETTINGS.format(rounds=1)
    expected = {
        f"train --backend aws {settings}": f"back-end aws needs {lacks}: {sdk}",
        f"train --backend emulated {settings}": f"back-end emulated needs {lacks}: {emulator}",
        "cloud deploy --yes": f"the package botocore is not installed; the extra aws brings it: {sdk}",
    }
    codes, errors, _ = run(tmp_path, *expected)
    assert codes == "[2, 2, 2]"
    assert errors == [f"marless: {line}" for line in expected.values()]
    _, _, table = run(tmp_path, "doctor")
    assert "missing: the extra aws\n" in table and f"to add emulated: {emulator}\n" in table
