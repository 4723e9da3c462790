"""Trains the published runs (docs/data/hashes.toml) on an emulated arm64, whole, and compares their weights.

    python -m scripts.arm64_runs FOLDER [RUN ...] > docs/results/arm64-runs.csv

It runs on any Debian. QEMU emulates the processor (`apt-get install qemu-user-static`). All other parts are built for
arm64: Debian's Python, the wheels of numpy and the others, and the kernels, by the compiler of the functions' kernels.
RUN are numbers of runs in that file, from 1, by default all. FOLDER keeps the system for the next call, packages while
the pins are as they were, and the runs. It writes a line of CSV as each run ends. The exit code is 1 if one has other
weights, and 2 if no run is possible.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from marless.functions.encoding import from_json
from marless.functions.native.variants import SOURCE
from marless.infra.packaging import function_kernels
from marless.infra.packaging.package_build import ROOT, Machine, platforms
from marless.infra.packaging.plugins import PackageFault, pip
from marless.reports import provenance
from marless.runs.folder import SUMMARY

EMULATOR = "qemu-aarch64-static"
_MACHINE: Machine = "aarch64"
_HASHES = ROOT / "docs" / "data" / "hashes.toml"
_MARLESS = "import sys; from marless.cli.app import main; sys.exit(main())"


class Missing(Exception):
    """Runs are impossible here. The message is one line."""


def main(arguments: Sequence[str]) -> int:
    """Train the runs, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m scripts.arm64_runs", description=str(__doc__).partition("\n")[0])
    parser.add_argument("folder", type=Path, help="of system, packages and runs; made at the first call")
    published = tomllib.loads(_HASHES.read_text(encoding="utf-8"))
    every = range(1, len(published["runs"]) + 1)
    parser.add_argument("runs", type=int, nargs="*", metavar="RUN", help=f"numbers of runs, from 1 to {every[-1]}")
    chosen = parser.parse_args(arguments)
    numbers, folder = chosen.runs or every, chosen.folder.absolute()
    if not {*numbers} <= {*every}:
        parser.error(f"runs have numbers from 1 to {every[-1]}")
    try:
        command, commit = _prepared(folder), provenance.commit()
    except (Missing, PackageFault) as fault:
        print(f"arm64_runs: {fault}", file=sys.stderr)
        return 2
    different = 0
    print("run,task,algorithm,processor,weights_sha256,as published,commit", flush=True)
    for number in numbers:
        run = published["runs"][number - 1]
        weights = _trained(command, folder, f"published-{number}", [*published["settings"], *run["settings"]])
        settings = dict(setting.split("=", 1) for setting in run["settings"])
        names = f"{settings['task.name']},{settings['algorithm.name']}"
        same = weights == run["weights_sha256"]
        different += not same
        print(
            f"{number},{names},arm64 under QEMU,{weights},{same},{commit}",
            flush=True,
        )
    return 1 if different else 0


def _prepared(folder: Path) -> list[str]:
    """Return the command of arm64's Python, with the program. Makes missing parts. Raises `Missing` and
    `PackageFault`."""
    if not (emulator := shutil.which(EMULATOR)):
        raise Missing(f"there is no {EMULATOR}: apt-get install qemu-user-static")
    system = folder / "system"
    if not system.exists():
        if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
            raise Missing("Debian's Python for arm64 is fetched by apt-get and dpkg-deb, which are not here")
        _fetch_system(folder / "apt", system)
    python = next((path for path in sorted((system / "usr/bin").glob("python3.*")) if path.name[8:].isdigit()), None)
    if python is None:
        raise Missing(f"{system} has no Python; delete it, so that it is fetched anew")
    pins = b"".join((ROOT / name).read_bytes() for name in ("pyproject.toml", "constraints.txt"))
    packages = folder / f"packages-{sha256(pins).hexdigest()[:12]}"
    if not packages.exists():
        _fetch_packages(packages, python.name.removeprefix("python"))
    program = _copy_program(folder)
    variables = (f"PYTHONPATH={program}{os.pathsep}{packages}", "OMP_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1")
    return ["env", *variables, emulator, "-L", str(system), str(python)]


def _fetch_system(apt: Path, system: Path) -> None:
    """Unpack Debian's Python for arm64 with its dependencies, without a change of this machine."""
    for name in ("lists/partial", "cache/archives/partial"):
        (apt / name).mkdir(parents=True, exist_ok=True)
    (apt / "status").touch()
    # apt's own data of this machine are neither read nor written.
    settings: dict[str, Any] = {"Dir::State::lists": apt / "lists", "Dir::State::status": apt / "status"}
    settings |= {"Dir::Cache": apt / "cache", "APT::Sandbox::User": "", "Debug::NoLocking": True}
    settings |= {"APT::Architecture": "arm64", "APT::Architectures": "arm64"}
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    _require("apt-get", *options, "update")
    wanted = ["python3", "libstdc++6"]
    _require("apt-get", *options, "install", "--yes", "--download-only", "--no-install-recommends", *wanted)
    unpacked = system.with_name("unpacked")
    shutil.rmtree(unpacked, ignore_errors=True)
    for package in sorted((apt / "cache" / "archives").glob("*.deb")):
        _require("dpkg-deb", "--extract", str(package), str(unpacked))
    if not (unpacked / "lib").exists():  # newer packages have all below usr, and a link in another package
        (unpacked / "lib").symlink_to("usr/lib")
    unpacked.rename(system)


def _fetch_packages(packages: Path, python: str) -> None:
    """Install the program's dependencies, for arm64, at the pinned versions."""
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    unpacked = packages.with_name("installed")
    shutil.rmtree(unpacked, ignore_errors=True)
    wheels = [
        f"--python-version={python}",
        "--only-binary=:all:",
        *(f"--platform={tag}" for tag in platforms(_MACHINE)),
    ]
    pip(
        [
            "install",
            f"--target={unpacked}",
            "--no-compile",
            f"--constraint={ROOT / 'constraints.txt'}",
            *wheels,
            *needed,
        ]
    )
    unpacked.rename(packages)


def _copy_program(folder: Path) -> Path:
    """The program as it is, with kernels for arm64."""
    program, kernels = folder / "program", folder / "kernels"
    for old in (program, kernels):
        shutil.rmtree(old, ignore_errors=True)
    shutil.copytree(ROOT / "marless", program / "marless", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for library in function_kernels.build(_MACHINE, kernels):
        shutil.copy(library, program / SOURCE.parent.relative_to(ROOT))
    return program


def _trained(command: Sequence[str], folder: Path, name: str, settings: Sequence[str]) -> str:
    """Return the hash of the weights of the run `name` below the folder. If it failed, print its messages and return
    "none"."""
    run = folder / "runs" / name
    shutil.rmtree(run, ignore_errors=True)
    # In that folder, Python does not import this checkout, with kernels for another processor.
    train = [*command, "-c", _MARLESS, "train", "--backend", "inline", "--run", name, *settings]
    done = subprocess.run(train, cwd=folder, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode:
        print(done.stdout[-2000:] + done.stderr[-2000:], file=sys.stderr)
        return "none"
    return str(from_json((run / SUMMARY).read_bytes(), dict[str, Any])["weights_sha256"])


def _require(*command: Any) -> None:
    """Run a command. Raises `Missing` with its last line if it fails."""
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", stdin=subprocess.DEVNULL)
    if done.returncode:
        line = ((done.stderr or done.stdout).strip().splitlines() or ["no word"])[-1]
        raise Missing(f"{command[0]} failed: {line}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
