"""The program version that made a run."""

import os
import shutil
import subprocess
import tomllib

import pytest

from functions import kernel_variables
from functions.environments.base import EnvTask
from marless.reports import gpus, provenance

TORCH = """
class cuda:
    device_count = staticmethod(lambda: 2)
    get_device_name = staticmethod(lambda number: "{name}")
"""


@pytest.fixture
def checkout(tmp_path):
    """A folder with a program and a page, both committed; returns the program's path."""
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    for name in (*provenance.PACKAGES, "docs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.py").write_text("1")
    (tmp_path / ".gitignore").write_text("*.pyc")
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=b", "commit", "-qm", "c"]):
        subprocess.run(["git", "-C", tmp_path, *command], check=True)
    return tmp_path


@pytest.mark.parametrize(("file", "mark"), [
    ("docs/one.py", ""),
    ("docs/two.py", ""),
    ("functions/one.pyc", ""),
    ("functions/one.py", "+"),
    ("infra/two.py", "+"),
])  # fmt: skip
def test_a_plus_stands_behind_a_commit_that_the_program_is_not(checkout, file, mark):
    code_sha256 = provenance.code_sha256.__wrapped__  # as in a new process
    before, sha256 = provenance.commit(checkout), code_sha256(checkout)
    assert len(before) == 40
    (checkout / file).write_text("2")
    assert provenance.commit(checkout) == before + mark
    assert (code_sha256(checkout) != sha256) == bool(mark)


def test_a_run_depends_on_the_instructions_that_libraries_are_set_to_use(shell):
    shell.unset(*kernel_variables.VARIABLES)
    task, found = EnvTask(name="toy/signal"), []
    for setting in (None, "Haswell", "Zen"):
        if setting:
            shell.export(OPENBLAS_CORETYPE=setting)
        found.append(provenance.environment_fingerprint(task, "ippo").machine)
    assert len({*found}) == 3


@pytest.fixture
def gpu_of(tmp_path, shell):
    """Makes other processes see two GPUs of this name, and a driver."""

    def see(name, driver):
        (tmp_path / "torch.py").write_text(TORCH.replace("{name}", name))
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\necho {driver}\necho {driver}\n")
        program.chmod(0o755)
        gpus.names.cache_clear()
        gpus._driver.cache_clear()

    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    shell.export(PYTHONPATH=str(tmp_path), PYTHONDONTWRITEBYTECODE="1", PATH=path)
    shell.unset(kernel_variables.CUBLAS_WORKSPACE)
    yield see
    gpus.names.cache_clear()
    gpus._driver.cache_clear()


def test_a_run_on_a_gpu_depends_on_its_model_its_driver_and_the_workspace_of_cublas(gpu_of, shell):
    def fingerprint(device="cuda"):
        return provenance.environment_fingerprint(EnvTask(name="toy/signal"), "ippo", "torch", device)

    gpu_of("H100", "580.1")
    first = fingerprint()
    assert first.gpu == "H100, driver 580.1, CUBLAS_WORKSPACE_CONFIG=:4096:8"
    shell.export(CUBLAS_WORKSPACE_CONFIG=":16:8")
    changed = "H100, driver 580.1, CUBLAS_WORKSPACE_CONFIG=:16:8"
    parts = (provenance.parts("", each) for each in (first, fingerprint()))
    assert list(map(str, provenance.changes(*parts))) == [f"gpu was {first.gpu} and is {changed}"]
    shell.unset(kernel_variables.CUBLAS_WORKSPACE)
    gpu_of("A100", "580.1")
    assert fingerprint().gpu.startswith("A100, driver 580.1,")
    gpu_of("H100", "590.2")
    assert fingerprint().gpu.startswith("H100, driver 590.2,")
    assert fingerprint("cpu").gpu is None


def test_a_folder_within_another_checkout_has_no_commit(checkout):
    assert provenance.commit(checkout / "functions") is None


def test_a_table_names_the_commit_that_wrote_it(checkout):
    whole = provenance.commit(checkout)
    assert provenance.written_by(checkout) == f"Written by commit {whole[:7]}."
    (checkout / "functions" / "one.py").write_text("2")
    assert provenance.written_by(checkout) == f"Written by commit {whole[:7]}, changed since."
    outside = provenance.written_by(checkout / "functions")
    declared = tomllib.loads((provenance.ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert outside == f"Written by marless {declared}, outside a git checkout, so its commit is not known."


def test_a_package_s_hash_changes_with_its_own_files_alone(tmp_path):
    for package in ("functions", "marless"):
        (tmp_path / package).mkdir()
    hashes = []
    for path in ("functions/model.py", "marless/page.py", "functions/prices.toml"):
        (tmp_path / path).write_text("")
        hashes.append(provenance.code_sha256.__wrapped__(tmp_path, ("functions",)))
    assert hashes[0] == hashes[1] != hashes[2]
