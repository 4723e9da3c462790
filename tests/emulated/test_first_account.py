"""`scripts/first_account` in the emulated account: every step of a first deployment succeeds."""

import subprocess
import sys

import pytest

from marless.infra.packaging.package_build import ROOT

_STEPS = 8


@pytest.mark.conformance
def test_first_account_script_passes_in_emulated_account():
    command = [sys.executable, "-m", "scripts.first_account", "--backend", "emulated"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    _, _, *rows = ended.stdout.strip().splitlines()
    assert len(rows) == _STEPS
    assert not [row for row in rows if "FAILED" in row]
