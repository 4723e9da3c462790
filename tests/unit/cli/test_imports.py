"""Functions and the coordinator import only the modules they need: every cold start pays for imports."""

import json
import subprocess
import sys
import time

import pytest

HEAVY = ("torch", "pydantic", "boto3", "matplotlib", "pettingzoo")
MODULES = (
    "marless.functions.actor.handler",
    "marless.functions.evaluator.handler",
    "marless.functions.learner.handler",
    "marless.coordinator.core.decide",
    "marless.coordinator.core.apply",
    "marless.coordinator.drive.driver",
)


@pytest.mark.parametrize("module", MODULES)
def test_a_start_loads_nothing_heavy(module):
    source = (
        f"import json, sys, {module}\n"
        f"print(json.dumps([name for name in {HEAVY!r} if name in sys.modules] + [{module!r} in sys.modules]))"
    )
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    print(f"{module} started and ended in {time.perf_counter() - start:.2f} s")
    assert json.loads(done.stdout) == [True]
