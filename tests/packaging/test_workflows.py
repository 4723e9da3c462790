"""The workflows call existing things: pinned actions, targets of the Makefile, and commands with known options."""

import re
import shlex
import subprocess
import sys

import pytest
import yaml

from marless.cli.app import Parser, command_and_rest, module_of
from marless.infra.packaging.package_build import PYTHON, ROOT

FOLDER = ROOT / ".github/workflows"
TEXTS = {path.name: path.read_text() for path in sorted(FOLDER.glob("*.yml"))}
JOBS = {(name, job): of for name, text in TEXTS.items() for job, of in yaml.safe_load(text)["jobs"].items()}
STEPS = [(name, step) for (name, _), of in JOBS.items() for step in of["steps"]]
COMMANDS = sorted({(name, step["run"]) for name, step in STEPS if "run" in step})


def test_every_action_is_pinned_with_its_version():
    used = [line.strip() for text in TEXTS.values() for line in text.splitlines() if "uses:" in line]
    assert len(used) > 8
    assert [line for line in used if not re.fullmatch(r"- uses: [\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)] == []


@pytest.mark.parametrize("name", TEXTS)
def test_workflow_reads_and_only_canary_job_assumes_role(name):
    assert yaml.safe_load(TEXTS[name])["permissions"]["contents"] == "read"
    for (file, _), job in JOBS.items():
        granted = {**yaml.safe_load(TEXTS[file])["permissions"], **job.get("permissions", {})}
        assert set(granted.values()) <= {"read", "write"}
        assert {scope for scope, how in granted.items() if how == "write"} <= {"id-token"}
        assert (granted.get("id-token") == "write") == (job.get("environment") == "canary")
        assert job["timeout-minutes"] <= 60


def test_deploying_job_has_python_of_functions():
    for job in JOBS.values():
        runs = "\n".join(step.get("run", "") for step in job["steps"])
        found = [step["with"]["python-version"] for step in job["steps"] if "setup-python" in step.get("uses", "")]
        if "--tenant canary --yes" in runs or "make audit" in runs:
            (python,) = found
            assert PYTHON in python.split()


@pytest.mark.parametrize(("name", "command"), [one for one in COMMANDS if one[1].startswith("make ")])
def test_make_knows_what_a_workflow_makes(name, command):
    words = [word.replace("$TORCH_INDEX", "none") for word in shlex.split(command)]
    done = subprocess.run([words[0], "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("name", "command"), [one for one in COMMANDS if "bin/marless" in one[1]])
def test_command_line_accepts_arguments_of_workflows(name, command):
    program, *words = shlex.split(command)
    chosen, options = command_and_rest(words)
    assert (ROOT / program).parts[-3:] == (".venv", "bin", "marless")
    parser = Parser(allow_abbrev=False)
    module_of(chosen).arguments(parser)
    parser.parse_args(options)


@pytest.mark.conformance
@pytest.mark.parametrize(("seconds", "code"), [("120", 0), ("0.2", 1)])
def test_canary_fails_exactly_if_run_does_not_finish(tmp_path, seconds, code):
    # The script trains below its own folder's parent, with the environment there.
    for folder in (".ci", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / ".ci/canary").write_text((ROOT / ".ci/canary").read_text())
    program = tmp_path / ".venv/bin/marless"
    program.write_text(f"#!{sys.executable}\nimport sys\nfrom marless.cli.app import main\nsys.exit(main())\n")
    program.chmod(0o755)

    def ran(*command):
        return subprocess.run(
            command, cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "CANARY_S": seconds}
        ).returncode

    assert ran(program, "cloud", "deploy", "--backend", "emulated", "--yes") == 0
    try:
        assert ran("bash", ".ci/canary", "--backend", "emulated") == code
    finally:
        assert ran(program, "cloud", "teardown", "--backend", "emulated", "--yes", "--force") == 0
