"""Compiles the kernels if there is a compiler, and adds the manual and the template to a wheel."""

import platform
import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelHook(BuildHookInterface):
    """A wheel with kernels is one for this kind of machine, of any version of Python."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the manual, the template, the libraries and their records to the wheel, and the machine to its name.

        Warn if a library is missing.
        """
        root = Path(self.root)
        for name in ("coordinator", "functions", "infra"):  # a source archive has no links
            if not (link := root / "marless" / name).exists():
                link.symlink_to(f"../{name}")
        if version != "editable":
            build_data["force_include"][str(root / "template.yaml")] = "marless/infra/deployment/template.yaml"
            pages = root / "docs"
            build_data["force_include"] |= {
                str(page): f"marless/manual/{page.relative_to(pages)}" for page in pages.rglob("*.md")
            }
        sys.path.insert(0, str(root))
        try:
            from marless.infra.packaging.kernel_build import build
        finally:
            sys.path.remove(str(root))
        # Only an editable installation needs them next to the sources, which may be read-only.
        self.folder = TemporaryDirectory()
        files, fault = build() if version == "editable" else build(Path(self.folder.name))
        if fault:
            self.app.display_warning(f"no kernels for algorithm.engine=native: {fault}")
        if files and version != "editable":
            # A Python for both kinds of Mac compiles for the one at hand.
            name = sysconfig.get_platform().replace("universal2", platform.machine())
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{name.replace('-', '_').replace('.', '_')}"
            build_data["force_include"] |= {str(file): f"marless/functions/native/{file.name}" for file in files}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the folder with the libraries, which the wheel now has."""
        self.folder.cleanup()
