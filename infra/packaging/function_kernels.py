"""The kernels of the deployed functions, cross-compiled on any machine that deploys."""

import re
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from marless.infra.packaging import kernel_build
from marless.infra.packaging.plugins import PackageFault, pip

PINS = Path(__file__).with_name("constraints-compiler.txt")


def build(machine: str, folder: Path) -> list[Path]:
    """The libraries for Linux on `machine`, compiled in the new `folder` by one version of the compiler: the same ones
    on every machine that deploys. Raises `PackageFault`."""
    folder.mkdir()
    # glibc of that version is older than any Lambda function's.
    command = [*_zig(folder / "compiler"), "cc", "-target", f"{machine}-linux-gnu.2.17"]
    libraries, fault = kernel_build.build(folder, machine, command)
    if fault:
        raise PackageFault(f"the functions' kernels are not compiled: {fault}")
    return libraries


def _zig(folder: Path) -> list[str]:
    """Return the pinned compiler's command. It is fetched into the folder if it is not installed."""
    (pin,) = re.findall(r"^ziglang==(\S+)", PINS.read_text(encoding="utf-8"), re.MULTILINE)
    try:
        installed = version("ziglang")
    except PackageNotFoundError:
        installed = ""
    if installed == pin:
        return [sys.executable, "-m", "ziglang"]
    pip(["install", f"--target={folder}", "--no-compile", "--no-deps", "--require-hashes", f"--requirement={PINS}"])
    return [sys.executable, str(folder / "ziglang")]
