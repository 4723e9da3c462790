"""Trains a study with real processes in a separate folder, with an environment of these benchmarks."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.launch import environment_with

COMMAND_LINE = ("marless.cli.app",)


@contextmanager
def trained(name: str, entry_point: str, lines: Sequence[str], program: Sequence[str] = COMMAND_LINE) -> Iterator[Path]:
    """Give the folder with the runs of the study `name`, until the block ends. Its file has these lines.

    `entry_point` is ``name = module:function`` of the environment, `program` the module that is run and its first
    arguments. Raises `RuntimeError` with the output if the study fails.
    """
    with tempfile.TemporaryDirectory(prefix="study-") as text:
        folder = Path(text)
        variables = environment_with(folder / "site", entry_point)
        (folder / f"{name}.toml").write_text("\n".join([*lines, ""]))
        done = subprocess.run(
            [sys.executable, "-m", *program, "study", f"{name}.toml"],
            cwd=folder,
            env=variables,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"{name} did not train: {done.stdout} {done.stderr}")
        yield folder / "studies" / name / "runs"
