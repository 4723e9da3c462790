"""Compiles the kernels where the program is installed or a wheel of it is built, if there is a compiler."""

import platform
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelHook(BuildHookInterface):
    """A wheel with kernels is one for this kind of machine, of any version of Python."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the libraries, and the machine to the wheel's name; without a compiler there is a warning instead."""
        root = Path(self.root)
        sys.path.insert(0, str(root))
        try:
            from infra.packaging.kernel_build import build
        finally:
            sys.path.remove(str(root))
        libraries, fault = build()
        if fault:
            self.app.display_warning(f"no kernels for algorithm.engine=native: {fault}")
        if libraries:
            # A Python for both kinds of Mac compiles for the one at hand.
            name = sysconfig.get_platform().replace("universal2", platform.machine())
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{name.replace('-', '_').replace('.', '_')}"
            build_data["artifacts"] += [str(library.relative_to(root)) for library in libraries]
