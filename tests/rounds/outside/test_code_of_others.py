"""An environment that changes its process gives the same weights as a harmless one, in each placement."""

import os
from pathlib import Path

import numpy as np
import pytest
from driver import SMALL, train

from marless.backends.registry import backend

pytestmark = pytest.mark.usefixtures("code_of_others")
TASK = "pettingzoo:untidy_environments"


@pytest.mark.slow
@pytest.mark.parametrize("placement", ["split", "whole"])
def test_process_changes_by_environment_change_no_weight(tmp_path, processes, placement):
    options = [*SMALL, "stop.rounds=2", f"placement.rule={placement}"]
    tidy = train(tmp_path / "tidy", [*options, f"task.name={TASK}:tidy"])
    folder, mask = Path.cwd(), os.umask(0o22)
    os.umask(mask)
    for name, places in (("inline", {"back_end": backend("inline").open}), ("local", {})):
        untidy = train(tmp_path / name, [*options, f"task.name={TASK}:untidy"], **places)
        assert untidy.sha256 == tidy.sha256
        objects = [path for path in (tmp_path / name).rglob("*") if path.is_file()]
        assert objects and all(path.stat().st_mode & 0o600 == 0o600 for path in objects)
    assert (Path.cwd(), np.geterr()["over"]) == (folder, "warn")
    assert os.umask(mask) == mask


def test_environment_that_replaces_functions_fails_in_one_line(tmp_path):
    original = np.tanh
    options = [*SMALL, "stop.rounds=3", f"task.name={TASK}:patching"]
    run = train(tmp_path / "run", options, back_end=backend("inline").open)
    assert run.state.status == "failed" and np.tanh is original
    assert f"{TASK}:patching replaces numpy.tanh in its process" in run.state.reason
