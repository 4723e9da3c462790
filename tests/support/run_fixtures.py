"""Fixtures of most tests of runs: separate state, functions in the tests' process, no pictures."""

import os
import sysconfig

import drawing_commands
import pytest
from commands import Commands
from shell import Shell

from marless.backends import local
from marless.backends.inline import InlineInvoker
from marless.functions.errors import MissingExtra
from marless.functions.isolation.foreign_imports import IMPORTS
from marless.functions.warm_cache import WARM
from marless.infra.local.file_storage import FileStorage
from marless.infra.local.single_run_pool import WorkerPool
from marless.reports import learning_curve
from marless.reports.plot_style import draw_if_possible

__all__ = [
    "_new_process", "_own_state", "_short_runs", "calls", "code_of_others", "marless", "no_processes", "pictures",
    "processes", "shell",
]  # fmt: skip

drawing_commands.without_pictures()


@pytest.fixture(scope="session", autouse=True)
def _own_state(tmp_path_factory):
    """Tests use their own key of sealed runs and their own cache of lists.

    The environment is active, because lines with commands depend on that.
    """
    state, cache = tmp_path_factory.mktemp("state"), tmp_path_factory.mktemp("cache")
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    with Shell() as shell:
        shell.export(XDG_STATE_HOME=str(state), XDG_CACHE_HOME=str(cache), PATH=path)
        yield


@pytest.fixture
def shell():
    """A user's choices outside the program, for one test: folder, variables, packages, typed text."""
    with Shell() as shell:
        yield shell


@pytest.fixture
def marless(tmp_path, shell, capfd):
    shell.cd(tmp_path)
    return Commands(capfd)


def _pool(workers, blobs_root, modules):
    if workers > 1:
        return WorkerPool(workers, blobs_root, modules)
    WARM.clear()  # a new process keeps nothing
    return InlineInvoker(FileStorage(blobs_root))


def _no_picture(points, path, title, name):
    raise MissingExtra("matplotlib")


DRAW = learning_curve.draw
DRAWING = ("comparison.comparison_files", "ablation.ablation_files", "ablation.ablate")


@pytest.fixture(scope="module", autouse=True)
def _short_runs():
    """Starting a process and drawing a picture take longer than most test runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "WorkerPool", _pool)
        patch.setattr(learning_curve, "draw", _no_picture)
        for module in DRAWING:
            patch.setattr(f"marless.{module}.draw_if_possible", lambda draw: ["left-out.png"])
        yield


@pytest.fixture
def processes(monkeypatch):
    monkeypatch.setattr(local, "WorkerPool", WorkerPool)


@pytest.fixture
def no_processes(monkeypatch):
    """Functions run in this process, for any number of workers."""
    monkeypatch.setattr(local, "WorkerPool", lambda workers, *where: _pool(1, *where))


@pytest.fixture
def pictures(monkeypatch):
    """Runs, studies and ablations are drawn. Other tests run without matplotlib."""
    monkeypatch.setattr(learning_curve, "draw", DRAW)
    for module in DRAWING:
        monkeypatch.setattr(f"marless.{module}.draw_if_possible", draw_if_possible)


@pytest.fixture
def calls(tmp_path, shell):
    """Return the questions so far of judges that note them."""
    path = tmp_path / "calls"
    shell.export(CALLS=str(path))
    return lambda: path.read_text().splitlines() if path.exists() else []


@pytest.fixture(autouse=True)
def _new_process():
    """Each test begins with nothing kept, and may change how much is. Modules of tests do not count as user code."""
    IMPORTS.expect()
    bound, keeps_objects = WARM.bound, WARM.keeps_objects
    WARM.clear()
    yield
    WARM.bound, WARM.keeps_objects = bound, keeps_objects


@pytest.fixture
def code_of_others(monkeypatch, _new_process):
    monkeypatch.setattr(IMPORTS, "foreign", True)
