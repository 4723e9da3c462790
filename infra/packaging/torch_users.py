"""Finds the plug-ins that need torch, which is too large for a function's zip archive.

Actors and evaluators need none (docs/decisions/0002), so only the learner gets it, as a container image.
"""

import json
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from marless.infra.packaging import plugins as plug_ins
from marless.infra.packaging.plugins import PlugIns

# A requirement under an `extra` is an option of the plug-in, not a need.
_TORCH = re.compile(r"torch(?![\w.-])(?!.*\bextra\b)", re.IGNORECASE)


@dataclass(frozen=True)
class TorchUsers:
    """`names` of the plug-ins that require torch by their metadata.

    `versions` lists all plug-ins that are distributions, as ``name==version``. Archives without torch are installed
    from `complete` (requirements with dependencies) and `alone` (without).
    """

    names: tuple[str, ...]
    versions: tuple[str, ...]
    complete: tuple[str, ...]
    alone: tuple[str, ...]

    @property
    def reason(self) -> str:
        """The reason why the learner has to be an image."""
        if "torch" in self.names:
            return "torch is a plug-in"
        return f"{' and '.join(self.names)} {'needs' if len(self.names) == 1 else 'need'} torch"


def torch_users(ready: PlugIns, platform: Sequence[str]) -> TorchUsers:
    """Return the users of torch among prepared plug-ins. pip reads their metadata for the functions' `platform`.

    Only a plug-in's own metadata count, because pip would have to download its dependencies, torch and CUDA included.
    Raises `PackageFault`.
    """
    if not ready.requirements:
        return TorchUsers((), (), (), ())
    names, versions, complete, alone = [], [], list[str](), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        for requirement in ready.requirements:
            if _TORCH.match(requirement):
                names.append("torch")
                versions.append(requirement)
                continue
            name, version, needs = _metadata(requirement, Path(folder), platform)
            versions.append(f"{name}=={version}")
            if any(map(_TORCH.match, needs)):
                names.append(name)
                alone.append(requirement)
                complete += [need for need in needs if not _TORCH.match(need)]
            else:
                complete.append(requirement)
    return TorchUsers(tuple(names), tuple(versions), tuple(complete), tuple(alone))


def _metadata(requirement: str, folder: Path, platform: Sequence[str]) -> tuple[str, str, list[str]]:
    """Name, version and requirements of the distribution that pip would install (pip documentation, "Installation
    Report")."""
    report = folder / "report.json"
    how = ["--dry-run", "--no-deps", "--ignore-installed", f"--report={report}", f"--target={folder / 'target'}"]
    plug_ins.pip(["install", *how, *platform, requirement])
    metadata = json.loads(report.read_text(encoding="utf-8"))["install"][0]["metadata"]
    return metadata["name"], metadata["version"], metadata.get("requires_dist", [])
