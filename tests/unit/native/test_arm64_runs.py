"""Published runs on an emulated arm64, whole."""

import csv
import os
import shutil
import subprocess
import sys

import pytest

from scripts import arm64_runs


def test_what_is_missing_is_one_line(tmp_path, shell, capsys):
    shell.export(PATH=str(tmp_path))
    assert arm64_runs.main([str(tmp_path / "folder")]) == 2
    said = capsys.readouterr()
    assert (
        said.out == "" and said.err == "arm64_runs: there is no qemu-aarch64-static: apt-get install qemu-user-static\n"
    )
    (tmp_path / arm64_runs.EMULATOR).touch(0o755)
    assert arm64_runs.main([str(tmp_path / "folder")]) == 2
    assert "which are not here" in capsys.readouterr().err


def test_a_run_that_is_not_published_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit) as ending:
        arm64_runs.main([str(tmp_path), "99"])
    count = (arm64_runs.ROOT / "docs/data/hashes.toml").read_text("utf-8").count("[[runs]]")
    assert ending.value.code == 2 and f"runs have numbers from 1 to {count}" in capsys.readouterr().err


@pytest.mark.conformance
@pytest.mark.skipif(
    not (shutil.which(arm64_runs.EMULATOR) and shutil.which("apt-get")),
    reason="apt-get install qemu-user-static, on Debian, emulates arm64",
)
def test_published_run_has_its_hash_on_arm64(tmp_path):
    command = [sys.executable, "-m", "scripts.arm64_runs", str(tmp_path), "8"]
    done = subprocess.run(command, cwd=arm64_runs.ROOT, env=os.environ, capture_output=True, text=True)
    if done.returncode == 2:
        pytest.skip(done.stderr.strip())  # a package index or a mirror is missing
    [run] = csv.DictReader(done.stdout.splitlines())
    assert (run["run"], run["as published"]) == ("8", "True"), done.stderr
