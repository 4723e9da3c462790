"""Parses a Dockerfile and follows its steps below a folder, without a container engine.

It supports the instructions of our Dockerfiles: FROM, ARG, ENV, WORKDIR, COPY, RUN in its shell form, CMD in its exec
form, comments and continued lines. Source: Dockerfile reference, docs.docker.com. Files with others are refused.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_KNOWN = ("FROM", "ARG", "ENV", "WORKDIR", "COPY", "RUN", "CMD")
# Variables of Lambda's base images (Lambda developer guide, "Deploy Python Lambda functions with container images").
_BASE = {"LAMBDA_TASK_ROOT": "/var/task"}


def steps(text: str) -> list[tuple[str, str]]:
    """Return the instructions and their arguments in order. Raises `ValueError` for an unsupported instruction."""
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    whole = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    found = []
    for line in whole.splitlines():
        instruction, _, arguments = line.strip().partition(" ")
        if instruction not in _KNOWN or arguments.startswith("--"):
            raise ValueError(f"cannot follow this step without a container engine: {line.strip()}")
        found.append((instruction, arguments.strip()))
    return found


@dataclass
class Followed:
    """A Dockerfile being followed: absolute paths are below `root`, and programs come from `environment`."""

    context: Path
    root: Path
    environment: dict[str, str]
    variables: dict[str, str] = field(default_factory=lambda: dict(_BASE))
    folder: str = _BASE["LAMBDA_TASK_ROOT"]
    command: list[str] = field(default_factory=list)

    def follow(self, text: str, arguments: Mapping[str, str]) -> None:
        """Follow all steps with the build's `arguments`. Raises `CalledProcessError` if a RUN fails."""
        for instruction, rest in steps(text):
            match instruction:
                case "ARG" | "ENV":
                    given = arguments if instruction == "ARG" else {}
                    for word in shlex.split(rest):
                        name, _, value = word.partition("=")
                        self.variables[name] = given.get(name, self._expanded(value))
                case "WORKDIR":
                    self.folder = self._expanded(rest)
                    self._here().mkdir(parents=True, exist_ok=True)
                case "COPY":
                    self._copy(*shlex.split(rest))
                case "RUN":
                    self._run(rest)
                case "CMD":
                    self.command = json.loads(rest)

    def below(self, path: str) -> Path:
        """The local path of an absolute path of the image."""
        return self.root / path.lstrip("/")

    def _here(self) -> Path:
        return self.below(self.folder)

    def _expanded(self, text: str) -> str:
        return re.sub(r"\$\{(\w+)\}", lambda match: self.variables.get(match[1], ""), text)

    def _copy(self, *words: str) -> None:
        """A folder's contents are copied, not the folder. A pattern may match nothing."""
        *sources, last = (self._expanded(word) for word in words)
        target = self.below(last) if last.startswith("/") else self._here() / last
        for source in sources:
            found = sorted(self.context.glob(source))
            if not found and not set(source) & set("*?["):
                raise ValueError(f"COPY {source}: not in the context; see .dockerignore")
            for path in found:
                if path.is_dir():
                    shutil.copytree(path, target, dirs_exist_ok=True)
                else:
                    target.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(path, target)

    def _run(self, command: str) -> None:
        # Paths in variables are moved below the root.
        moved = {name: str(self.below(text)) if text.startswith("/") else text for name, text in self.variables.items()}
        environment = {**os.environ, **moved, **self.environment}
        subprocess.run(["/bin/sh", "-c", command], cwd=self._here(), env=environment, check=True)
