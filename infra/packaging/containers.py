"""The container engine of this machine, which builds the learner's image."""

import shutil
import subprocess
from pathlib import Path

# All accept the same command-line arguments.
ENGINES = ("docker", "podman", "finch")
DOCKERFILE = Path("infra/packaging/Dockerfile")
_ANSWER_S = 10.0
_ALONE = ("--provenance=false",)


class ContainerFault(Exception):
    """An image cannot be built. The message is one line with the reason or advice."""


def engine() -> str:
    """Return the first engine that answers. Raises `ContainerFault` if there is none."""
    engines = [name for name in ENGINES if shutil.which(name)]
    if name := next(filter(_answers, engines), ""):
        return name
    if engines:
        raise ContainerFault(f"{' and '.join(engines)} does not answer; start the engine")
    raise ContainerFault(
        f"none of {', '.join(ENGINES)} is installed; one of them builds the image of a learner with torch"
    )


def build(engine: str, root: Path, tag: str) -> None:
    """Build the learner's image for the functions' processor from the folder `root`. Raises `ContainerFault`.

    Lambda refuses the attestations that docker adds to an image by default (Lambda developer guide, "Deploy Python
    Lambda functions with container images").
    """
    command = [engine, "build", "--quiet", "--platform=linux/arm64", f"--file={root / DOCKERFILE}", f"--tag={tag}"]
    done = _run([*command, *_ALONE, str(root)] if engine == "docker" else [*command, str(root)])
    if "unknown flag" in done.stderr:
        # docker without buildx uses the classic builder, which lacks both the flag and attestations.
        done = _run([*command, str(root)])
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        hint = "; building for arm64 on another processor needs QEMU" if "exec format error" in done.stderr else ""
        raise ContainerFault(f"{engine} build failed: {(lines or ['it said nothing'])[-1]}{hint}")


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, encoding="utf-8", errors="replace", stdin=subprocess.DEVNULL, check=False
    )


def _answers(name: str) -> bool:
    try:
        done = subprocess.run(
            [name, "ps", "--quiet"], capture_output=True, stdin=subprocess.DEVNULL, timeout=_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
