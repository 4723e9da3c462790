"""Users' environments and algorithms, and the guides to them, followed literally in a separate folder."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from commands import Commands
from fresh_environments import FreshEnvironment
from installed_plug_ins import PLUG_INS, install

from marless.functions.algorithms.registry import algorithm
from marless.infra.packaging.package_build import ENTRIES
from marless.infra.packaging.package_sources import sources
from marless.infra.packaging.plugins import prepare
from marless.testing.algorithms.conformance import check
from marless.testing.algorithms.random_tasks import TASKS

ROOT = Path(__file__).resolve().parents[2]
# Pages under docs/ that are followed literally, with their numbers of files.
GUIDES = {
    "tutorials/your-environment": 3,
    "tutorials/entities": 2,
    "tutorials/any-size": 0,
    "how-to/slow-environments": 1,
    "tutorials/your-algorithm": 6,
}
SMALL = (
    "task.name=my_task",
    "algorithm.name=reinforce",
    "actors.num_envs=8",
    "evaluation.episodes=4",
    "evaluation.final_episodes=4",
)

# A code block, and the line before it that names its file: `my_task/my_task.py`:
_BLOCK = re.compile(
    r"(?:^`(?P<file>[^`\n]+)`:\n\n)?^```(?P<language>\w*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)

_SCRIPTS = {
    "marless": "import sys\nfrom marless.cli.app import main\nsys.exit(main())\n",
    "pip": "import runpy\nrunpy.run_module('pip', run_name='__main__')\n",
}


def blocks(guide):
    """All code of a guide: (file or None, language, text)."""
    text = (ROOT / "docs" / f"{guide}.md").read_text()
    return [(found["file"], found["language"], found["body"]) for found in _BLOCK.finditer(text)]


class Home(FreshEnvironment):
    def __init__(self, folder):
        super().__init__(folder)
        self.borrow_packages()
        for name, body in _SCRIPTS.items():
            self.write_script(name, body)

    def __call__(self, commands):
        no_index = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_CONFIG_FILE": os.devnull}
        return super().__call__(commands, **no_index)

    def follow(self, guide):
        """Follows a guide: every code block is a file to write or a command to run."""
        for file, language, body in blocks(guide):
            if file:
                path = self.folder / file
                path.parent.mkdir(exist_ok=True)
                path.write_text(body)
            else:
                assert language == "sh", f"{guide}: a block that nobody runs:\n{body}"
                self(body)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    made = Home(tmp_path_factory.mktemp("home"))
    try:
        for guide in GUIDES:
            made.follow(guide)
        yield made
    finally:
        if made.account.exists():  # a guide failed half-way
            made("marless cloud teardown --backend emulated --yes --force")


@pytest.mark.parametrize("guide", GUIDES)
def test_guide_files_equal_files_of_other_tests(guide):
    files = {file: body for file, _, body in blocks(guide) if file}
    assert len(files) == GUIDES[guide]
    assert files == {file: (PLUG_INS / file).read_text() for file in files}


@pytest.mark.conformance
def test_what_the_guides_train_learns(home):
    # Without listening to the scout the return is at most 2.4: four of the five cells, for three agents.
    assert home.summary("digging")["final_return"]["mean"] > 2.4
    # Two of the four fruits. A random team loses more to wasps than it gains.
    assert home.summary("picked")["final_return"]["mean"] > 2


@pytest.mark.conformance
@pytest.mark.parametrize(
    ("run", "settings"),
    [("there", "task.name=my_task actors.num_envs=64"), ("clouded", "task.name=my_task algorithm.name=reinforce")],
)
def test_emulated_plug_in_run_has_local_weights(home, run, settings):
    home(f"marless train {settings} stop.rounds=2 --run {run}-here")
    plan = json.loads((home.folder / "runs" / run / "plan.json").read_text())
    assert plan["backend"] == "emulated"
    assert home.summary(run)["weights_sha256"] == home.summary(f"{run}-here")["weights_sha256"]


@pytest.mark.conformance
def test_the_guides_leave_no_account_behind(home):
    assert not home.account.exists()


@pytest.fixture
def marless(tmp_path, shell, capfd):
    for name in ("my_task", "my_algorithm"):
        install(tmp_path / "site", shell, name)
    shell.cd(tmp_path)
    return Commands(capfd)


def trained(marless, run, *settings):
    said = marless("train", *SMALL, *settings, "--run", run, "--workers", "1")
    assert said.code == 0, said.err
    return weights(run)


def weights(run):
    return json.loads(Path("runs", run, "summary.json").read_text())["weights_sha256"]


def test_resumed_plug_in_run_has_uninterrupted_bytes(marless):
    trained(marless, "parts", "stop.rounds=2")
    assert marless("resume", "parts", "stop.rounds=4", "--workers", "1").code == 0
    assert weights("parts") == trained(marless, "once", "stop.rounds=4")


def test_plug_in_placements_have_same_weights(marless):
    settings = ("stop.rounds=3", "sharing.rule=all")
    rules = ("split", "fused", "packed", "whole")
    assert len({trained(marless, rule, *settings, f"placement.rule={rule}") for rule in rules}) == 1


def test_unknown_key_gets_answer_of_guide(marless):
    [said] = marless("config", "algorithm.name=reinforce", "algorithm.learning_rate=1").err
    page = (ROOT / "docs/tutorials/your-algorithm.md").read_text()
    assert f"| `{said.removeprefix('marless: the command line: ')}` |" in page


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_algorithm_with_torch_loss_keeps_its_promises(tmp_path, shell, engine):
    install(tmp_path, shell, "my_loss")
    settings = {"hidden": [8], "epochs": 1, "num_minibatches": 2, "engine": engine, "recurrent": engine == "torch"}
    settings["normalise_observations"] = True
    assert check(algorithm("spo"), settings, [TASKS["unequal agents with masks and a state"]]) == ()


@pytest.mark.slow
def test_an_algorithm_with_a_loss_in_torch_learns(tmp_path, shell, capfd):
    install(tmp_path / "site", shell, "my_loss")
    shell.cd(tmp_path)
    settings = ("task.name=toy/signal", "algorithm.name=spo", "actors.num_envs=16", "stop.rounds=30")
    said = Commands(capfd)("train", *settings, "--run", "learned", "--workers", "1")
    assert said.code == 0, said.err
    # Random play returns a third of the 10 answers. Over 20 seeds all returns were 10.0.
    assert json.loads(Path("runs/learned/summary.json").read_text())["final_return"]["mean"] > 8


def test_algorithm_travels_with_its_entry_point(tmp_path, shell):
    shell.export(PIP_NO_INDEX="1", PIP_NO_BUILD_ISOLATION="0", PIP_CONFIG_FILE=os.devnull)
    project = shutil.copytree(PLUG_INS / "my_algorithm", tmp_path / "my_algorithm")
    (wheel,) = prepare([str(project)], tmp_path / "wheels").requirements
    with zipfile.ZipFile(wheel) as packed:
        assert "my_algorithm.py" in packed.namelist()
        entries = packed.read("my_algorithm-1.0.dist-info/entry_points.txt").decode()
    assert entries.split() == ["[marless.algorithms]", "reinforce", "=", "my_algorithm:SPEC"]


@pytest.mark.parametrize("function", ["learner", "coordinator"])
def test_imported_own_modules_travel_with_functions(function):
    code = "import sys, my_algorithm; print(*(name for name in sys.modules if name.startswith('marless.functions.')))"
    variables = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{PLUG_INS / 'my_algorithm'}"}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    packed = {".".join(file.with_suffix("").parts) for file in sources(ROOT, ENTRIES[function]).files}
    assert {name.removesuffix(".__init__") for name in packed}.issuperset(done.stdout.split())
