"""Builds the packages for Lambda: ``python -m scripts.build WHAT FOLDER``.

WHAT is a function, for its package, or `zips`, for the packages of all functions with an archive each. `plugins` makes
the plug-ins' files in a learner that is a container image, see `marless.infra.packaging.torch_users`.
"""

import argparse
import sys
from pathlib import Path

from marless.infra.packaging import plugins
from marless.infra.packaging.archives import pack
from marless.infra.packaging.package_build import ENTRIES, PYTHON, build, size, torch_users_among
from marless.infra.packaging.plugins import PackageFault


def main() -> int:
    """Build the parts that the arguments name. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Build functions' packages, or make plug-ins ready for the image.")
    # sam names the template's logical ids, which begin with a capital.
    parser.add_argument("what", type=str.lower, choices=[*ENTRIES, "zips", "plugins"])
    parser.add_argument("folder", type=Path, help="new or empty")
    parser.add_argument("--plugins", nargs="*", default=[], help="requirements, wheels, projects, packages, modules")
    chosen = parser.parse_args()
    try:
        if chosen.what == "plugins":
            plugins.stage(chosen.plugins, chosen.folder)
        elif chosen.what == "zips":
            torch = torch_users_among(chosen.plugins)
            zipped = [function for function in ENTRIES if not (torch.names and function == "learner")]
            if torch.names:
                print(f"build: {torch.reason}, so the learner is an image: see infra/packaging/Dockerfile")
            _build({function: chosen.folder / function for function in zipped}, chosen.plugins)
            for function in zipped:
                archive = chosen.folder / f"{function}.zip"
                digest = pack(chosen.folder / function, archive)
                print(f"{archive}: {archive.stat().st_size / 1e6:.1f} MB, {digest}")
        else:
            _build({chosen.what: chosen.folder}, chosen.plugins)
    except PackageFault as fault:
        print(f"build: {fault}", file=sys.stderr)
        return 1
    return 0


def _build(targets: dict[str, Path], chosen: list[str]) -> None:
    if not build(targets, chosen):
        print(
            f"build: there is no Python {PYTHON} here, so functions go without byte code and start slower; install it",
            file=sys.stderr,
        )
    for function, target in targets.items():
        print(f"{target}: {function}, {size(target) / 1e6:.1f} MB")


if __name__ == "__main__":
    sys.exit(main())
