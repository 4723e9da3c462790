"""The wheel is complete: its installation works outside the source tree, locally and in the emulated account."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from c_programs import needs_compiler
from fresh_environments import FreshEnvironment

from marless.functions.native.libraries import load
from marless.functions.native.variants import SOURCE, VARIANTS, library_name, sources_digest
from marless.infra.deployment import template
from marless.infra.packaging.interpreters import interpreter
from marless.infra.packaging.package_build import ENTRIES, PINS, ROOT
from marless.infra.packaging.package_sources import sources
from marless.reports import provenance

SETTINGS = (
    "task.name=toy/corridor actors.num_envs=2 actors.rollout_length=10 stop.rounds=2"
    " evaluation.episodes=2 evaluation.final_episodes=2"
)
COMMANDS = f"""
marless doctor
marless train {SETTINGS} --workers 1 --run here
marless study small.toml
marless export here --to safetensors
marless evaluate here --episodes 2 --workers 1
marless cloud deploy --backend emulated --yes
marless cloud policy deployer --backend emulated
marless train --backend emulated {SETTINGS} --run emulated
marless train --backend emulated --detach {SETTINGS} --run detached
marless status --follow detached
marless cloud teardown --backend emulated --yes
"""
STUDY = "seeds = '1-2'\npool.workers = 1\n" + "".join(
    f"base.{key} = {value if value.isdecimal() else repr(value)}\n"
    for key, _, value in (setting.partition("=") for setting in SETTINGS.split())
)
# Prints the installed program's root, version and data files.
_INSTALLED = """
import json, sys
from marless.reports import provenance
from marless.infra.deployment import template
from marless.infra.packaging.package_sources import sources
from marless.infra.packaging.package_build import ENTRIES, PINS, ROOT
json.dump({
    "root": str(ROOT),
    "code": provenance.code_sha256(),
    "commit": provenance.commit(),
    "template": template.text(),
    "pins": PINS.read_text(),
    "files": {function: [str(file) for file in sources(ROOT, entry).files] for function, entry in ENTRIES.items()},
}, sys.stdout)
"""
# The tests' Python, and a later one if installed.
_LATER = next(filter(None, (interpreter(f"3.{minor}") for minor in range(sys.version_info.minor + 1, 16))), None)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The wheels of this source tree, ours and the emulated account's, built without a package index."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-cache-dir"]
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    subprocess.run(
        [*command, f"--wheel-dir={folder}", str(ROOT), str(ROOT / "packages/aws-emulator")], env=environment, check=True
    )
    return folder


def require_whole_product(installed):
    """Runs the commands. Checks that a run has the same weights on every back-end."""
    (installed.folder / "small.toml").write_text(STUDY)
    try:
        said = installed(COMMANDS, timeout=600)
    finally:
        if installed.account.exists():
            installed("marless cloud teardown --backend emulated --yes --force")
    assert "-e '.[" not in said
    hashes = {installed.summary(run)["weights_sha256"] for run in ("here", "emulated", "detached")}
    assert len(hashes) == 1
    assert not installed.account.exists()


@pytest.fixture(scope="module")
def installed(wheels, tmp_path_factory):
    """The wheels in a virtual environment that reuses this one's packages."""
    environment = FreshEnvironment(tmp_path_factory.mktemp("installed"))
    environment.borrow_packages()
    environment(f"python -m pip install --quiet --no-compile --no-deps --no-index --ignore-installed {wheels}/*.whl")
    return environment


@pytest.mark.slow
def test_installed_wheel_holds_source_tree_and_trains(installed):
    known = json.loads(installed(f"python -c '{_INSTALLED}'"))
    assert known["root"].startswith(str(installed.folder))
    assert known["code"] == provenance.code_sha256()
    assert known["commit"] is None
    assert known["template"] == template.text()
    assert known["pins"] == PINS.read_text()
    here = {function: [str(file) for file in sources(ROOT, entry).files] for function, entry in ENTRIES.items()}
    assert known["files"] == here
    installed(f"marless train {SETTINGS} --backend inline --run inline")


@pytest.mark.slow
def test_installed_wheel_names_manual_with_existing_pages(installed):
    first = Path(installed("marless help").splitlines()[-1])
    assert first.is_relative_to(installed.folder)
    assert {page.relative_to(first.parent) for page in first.parent.rglob("*.md")} == {
        page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")
    }
    assert first.read_text("utf-8") == (ROOT / "docs" / "index.md").read_text("utf-8")


@pytest.mark.slow
@needs_compiler
def test_a_wheel_holds_kernels_and_their_records(wheels, tmp_path):
    (wheel,) = wheels.glob("marless-*.whl")
    with ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith((".so", ".sha256"))]
        archive.extractall(tmp_path, names)
    libraries = sorted(tmp_path.rglob("*.so"))
    assert [path.name for path in libraries] == sorted(map(library_name, VARIANTS[platform.machine()]))
    assert any(load(path, sources_digest(SOURCE.parent)) for path in libraries)


@pytest.mark.conformance
def test_installed_wheel_trains_locally_and_emulated(installed):
    require_whole_product(installed)


@pytest.mark.conformance
@pytest.mark.parametrize("python", [sys.executable, _LATER], ids=["this Python", "a later Python"])
def test_wheel_of_index_is_whole_product(wheels, tmp_path, python):
    if python is None:
        pytest.skip("this machine has no later Python")
    installed = FreshEnvironment(tmp_path, python, pip=True)
    installed(f"pip install --quiet --find-links {wheels} 'marless[tasks,report,emulated]'", timeout=1800)
    require_whole_product(installed)
