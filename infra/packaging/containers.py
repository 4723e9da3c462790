"""The container engine of this machine, which builds the learner's image."""

import shutil
import subprocess
from pathlib import Path

# All accept the same command-line arguments.
ENGINES = ("docker", "podman", "finch")
IMAGE = "marless-learner"
DOCKERFILE = Path("infra/packaging/Dockerfile")
_ANSWER_S = 10.0


class ContainerFault(Exception):
    """An image cannot be built; the message is one line with the reason or advice."""


def engine() -> str:
    """The first engine that answers; raises `ContainerFault` when none does."""
    found = [name for name in ENGINES if shutil.which(name)]
    for name in found:
        if _answers(name):
            return name
    if found:
        raise ContainerFault(f"{' and '.join(found)} does not answer; start the engine")
    raise ContainerFault(f"none of {', '.join(ENGINES)} is installed; one of them builds the learner's image")


def build(engine: str, root: Path, tag: str) -> None:
    """Builds the learner's image for the functions' processor from the folder `root`; raises `ContainerFault`.

    Lambda refuses the attestations that docker adds to an image by default (Lambda developer guide, "Deploy Python
    Lambda functions with container images").
    """
    alone = ["--provenance=false"] if engine == "docker" else []
    command = [engine, "build", "--quiet", "--platform=linux/arm64", *alone, f"--file={root / DOCKERFILE}"]
    done = subprocess.run(
        [*command, f"--tag={tag}", str(root)], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        hint = "; building for arm64 on another processor needs QEMU" if "exec format error" in done.stderr else ""
        raise ContainerFault(f"{engine} build failed: {(lines or ['it said nothing'])[-1]}{hint}")


def _answers(name: str) -> bool:
    """Whether the engine's daemon answers in time."""
    try:
        done = subprocess.run(
            [name, "ps", "--quiet"], capture_output=True, stdin=subprocess.DEVNULL, timeout=_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
