"""Functions and the coordinator import only the modules they need: every cold start pays for imports."""

import subprocess
import sys

from marless.backends.base import FUNCTION_MODULES

HEAVY = ("torch", "pydantic", "boto3", "matplotlib", "pettingzoo", "gymnasium")
# Workers are forked from some of them. After torch has initialised CUDA, no fork can use CUDA.
MODULES = (
    *FUNCTION_MODULES.values(),
    "marless.infra.local.processes.zygote",
    "marless.functions.environments.registry",
    "marless.testing.environments",
    "marless.functions.algorithms.registry",
    "marless.testing.algorithms.conformance",
    "marless.coordinator.core.decide",
    "marless.coordinator.core.apply",
    "marless.coordinator.drive.driver",
)


def test_a_start_loads_nothing_heavy():
    """One process imports them in turn, and prints the heavy modules that it has loaded."""
    source = (
        "import importlib, sys\n"
        f"for name in {MODULES!r}:\n"
        "    importlib.import_module(name)\n"
        f"    print(name, *[heavy for heavy in {HEAVY!r} if heavy in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == list(MODULES)
