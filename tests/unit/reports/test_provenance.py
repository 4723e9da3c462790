"""The program version that made a run."""

import os
import shutil
import subprocess
import tomllib

import pytest

from marless.functions import kernel_variables
from marless.functions.environments.base import EnvTask
from marless.reports import gpus, provenance

TORCH = """
class cuda:
    device_count = staticmethod(lambda: 2)
    get_device_name = staticmethod(lambda number: "{name}")
"""


@pytest.fixture
def checkout(tmp_path):
    """A folder with a program and a page, both committed. Returns the program's path."""
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    for name in (*provenance.PACKAGES, "docs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.py").write_text("1")
    for name in ("functions", "coordinator", "infra"):
        (tmp_path / "marless" / name).symlink_to(f"../{name}")
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
def test_modified_commit_has_plus(checkout, file, mark):
    code_sha256 = provenance.code_sha256.__wrapped__  # like in a new process
    before, sha256 = provenance.commit(checkout), code_sha256(checkout)
    assert len(before) == 40
    (checkout / file).write_text("2")
    assert provenance.commit(checkout) == before + mark
    assert (code_sha256(checkout) != sha256) == bool(mark)


def test_run_depends_on_instructions_set_for_libraries(shell):
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


def test_gpu_run_depends_on_model_driver_and_workspace(gpu_of, shell):
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


def test_package_hash_changes_only_with_own_files(tmp_path):
    for package in ("functions", "marless"):
        (tmp_path / package).mkdir()
    hashes = []
    for path in ("functions/model.py", "marless/page.py", "functions/prices.toml"):
        (tmp_path / path).write_text("")
        hashes.append(provenance.code_sha256.__wrapped__(tmp_path, ("functions",)))
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.fixture
def code_of(tmp_path, shell):
    """The hash of a small program in a new process with a user's cache. `write` changes a file of it."""
    shell.export(XDG_CACHE_HOME=str(tmp_path / "cache"))

    def write(path, text):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return provenance.code_sha256.__wrapped__(tmp_path)

    return write


def test_program_differs_only_by_its_computation(code_of):
    first = code_of("marless/functions/model.py", '"""Doc."""\n\nSIZE = 1\n')
    assert code_of("marless/functions/model.py", '"""Another docstring."""\n\n# and a comment\nSIZE = 1\n') == first
    assert code_of("marless/cli/help.py", "TEXT = 1\n") == code_of("marless/page/page.py", "TEXT = 2\n") == first
    assert code_of("marless/functions/model.py", "SIZE = 2\n") != first
    assert code_of("marless/functions/model.py", "SIZE = 1\n") == first


@pytest.mark.parametrize("path", [
    "marless/functions/native/kernels.c", "marless/coordinator/pricing/prices/a.toml", "marless/infra/local/storage.py",
    "marless/runs/session.py", "marless/backends/local.py", "marless/cloud/sizes.py", "marless/studies/shares.py",
])  # fmt: skip
def test_every_part_that_computes_counts_with_its_name(code_of, path):
    hashes = [
        code_of("marless/functions/model.py", ""),
        code_of(path, ""),
        code_of(path, "A = 1\n"),
        code_of(path, "A = 2\n"),
    ]
    assert len({*hashes}) == 4


@pytest.mark.parametrize("damage", ["", "no hash", f"{'0' * 64} {'1' * 64}", "\xff" * 300, None])
def test_cache_of_other_files_is_not_believed(code_of, tmp_path, damage):
    first = code_of("marless/functions/model.py", "SIZE = 1\n")
    (kept,) = (tmp_path / "cache/marless").iterdir()
    kept.unlink() if damage is None else kept.write_text(damage)
    assert code_of("marless/functions/model.py", "SIZE = 1\n") == first
    assert kept.read_text().split()[-1] == first


def test_program_has_hash_without_cache(code_of, tmp_path):
    (tmp_path / "cache").touch()
    assert code_of("marless/functions/model.py", "A = 1\n") == code_of("marless/functions/model.py", "A = 1  # one\n")


def test_cache_without_home_is_outside_folder(code_of, tmp_path, shell):
    shell.cd(tmp_path)
    shell.export(XDG_CACHE_HOME="~/.cache")
    code_of("marless/functions/model.py", "A = 1\n")
    assert [path.name for path in tmp_path.iterdir()] == ["marless"]
