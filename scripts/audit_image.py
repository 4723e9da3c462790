"""Follows the steps of the learner's Dockerfile without a container engine, and runs the learner from the result.

The context has the files that an engine would receive. A virtual environment of a local Python replaces the base image.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from subprocess import CalledProcessError

from docker.utils.build import exclude_paths  # type: ignore[import-untyped]

from marless.infra.packaging.interpreters import interpreter
from marless.infra.packaging.package_build import ENTRIES, PYTHON, ROOT
from scripts.dockerfile import Followed
from scripts.functions_at_work import Functions, account, work

DOCKERFILE = ROOT / "infra/packaging/Dockerfile"


def main() -> int:
    """Audit the image. Returns the exit code."""
    try:
        follow(interpreter(PYTHON) or sys.executable)
    except CalledProcessError as fault:
        print(f"audit: a step of the learner's image failed with status {fault.returncode}, see above", file=sys.stderr)
    except (RuntimeError, ValueError) as fault:
        print(f"audit: {fault}", file=sys.stderr)
    else:
        print("the learner's image: its steps run, and the learner works from the result alone")
        return 0
    return 1


def follow(python: str) -> None:
    """Follow the steps with `python`. Raises `CalledProcessError` for a failed step, `ValueError` for an invalid step,
    and `RuntimeError` if the learner does not work."""
    with tempfile.TemporaryDirectory() as folder:
        environment, context, root = (Path(folder, name) for name in ("environment", "context", "root"))
        subprocess.run([python, "-m", "venv", environment], check=True)
        send(ROOT, context)
        quiet = {"PIP_QUIET": "2", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
        image = Followed(context, root, {"PATH": path, **quiet})
        image.follow(DOCKERFILE.read_text(encoding="utf-8"), {"TORCH_INDEX": ""})
        if image.command != [f"{ENTRIES['learner']}.handler"]:
            raise ValueError(f"the image runs {image.command}, not the learner's entry")
        with account() as variables:
            learner = Functions(python, {"learner": image.below("/var/task")}, variables)
            work(learner, ["learner"], variables)


def send(folder: Path, context: Path) -> None:
    """Copies the files of `folder` that .dockerignore does not exclude to `context`."""
    lines = (folder / ".dockerignore").read_text(encoding="utf-8").splitlines()
    patterns = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    for name in exclude_paths(str(folder), patterns):
        source, target = folder / name, context / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())


if __name__ == "__main__":
    sys.exit(main())
