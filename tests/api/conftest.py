"""Fixtures that give each test its own working folder."""

import pytest

SMALL = {
    "actors": {"num_envs": 4},
    "evaluation": {"every": 2, "episodes": 4, "final_episodes": 4},
    "algorithm": {"hidden": [8], "epochs": 1, "num_minibatches": 1},
}


@pytest.fixture(autouse=True)
def home(tmp_path, shell, no_processes):
    shell.cd(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def small():
    return {**SMALL, "stop": {"rounds": 2}}
