"""Builds the uploads of a deployment on AWS from this program and the user's plug-ins."""

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile

from marless.functions.resources.settings import Resource
from marless.infra.deployment import Image, Packages
from marless.infra.deployment.stack import RESOURCE
from marless.infra.packaging import function_kernels, plugins
from marless.infra.packaging.archives import pack
from marless.infra.packaging.package_build import ENTRIES, MACHINE, PYTHON, ROOT, build, require_modules
from marless.infra.packaging.torch_users import TorchUsers

# The folders that the image's Dockerfile copies. In a checkout, `marless` has links to the other folders. They are left
# out, as are byte code and kernels of this machine.
_CONTEXT = {"functions": "marless/functions", "infra": "marless/infra", "marless": "marless"}
_ABSENT = shutil.ignore_patterns("coordinator", *_CONTEXT, "__pycache__", "*.pyc", "*.so", "kernels-*.sha256")


@contextmanager
def pack_functions(
    plug_ins: Sequence[str], torch: TorchUsers, resources: Mapping[str, Resource], say: Callable[[str], None]
) -> Iterator[Packages]:
    """Archives of the functions with the plug-ins `plug_ins`, of external `resources` too if there are any, removed
    when the block ends.

    The learner is an image if any of them needs torch. Raises `PackageFault`.
    """
    with tempfile.TemporaryDirectory(prefix="marless-packages-") as temporary:
        folder = Path(temporary)
        zip_functions = [name for name in ENTRIES if not (torch.names and name == "learner")]
        zip_functions += [RESOURCE] if resources else []
        say(f"building the packages of {', '.join(zip_functions[:-1])} and {zip_functions[-1]}")
        if not build({name: folder / name for name in zip_functions}, plug_ins):
            say(f"Python {PYTHON} is not installed, so functions are deployed without byte code and start slower")
        require_modules(folder / RESOURCE, {name: resource.serve for name, resource in resources.items()})
        archives = {name: folder / f"{name}.zip" for name in zip_functions}
        for name, archive in archives.items():
            pack(folder / name, archive)
        image = learner_image(folder / "image", plug_ins, torch) if torch.names else None
        yield Packages({str(name): archive for name, archive in archives.items()}, image)


def learner_image(context: Path, plug_ins: Sequence[str], torch: TorchUsers) -> Image:
    """Return the learner's image with the plug-ins `plug_ins`. Its sources are written to the new folder `context`.
    They are only the files that the Dockerfile copies, without runs and virtual environments."""
    for name, folder in _CONTEXT.items():
        shutil.copytree(ROOT / folder, context / name, ignore=_ABSENT)
    with tempfile.TemporaryDirectory() as kernels:
        for library in function_kernels.build(MACHINE, Path(kernels, "kernels")):
            shutil.copyfile(library, context / "functions" / "native" / library.name)
    plugins.stage(plug_ins, context / "build" / "plugins")
    # Which version of a plug-in a requirement means can change from day to day.
    parts = ["\n".join(torch.versions).encode()]
    for file in sorted(path for path in context.rglob("*") if path.is_file()):
        parts += [file.relative_to(context).as_posix().encode(), *_contents(file)]
    return Image(context, hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:24])


def _contents(file: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, or of the files in a wheel, because many back-ends add the time of the build."""
    if file.suffix != ".whl":
        yield file.read_bytes()
        return
    with ZipFile(file) as wheel:
        for name in sorted(wheel.namelist()):
            yield from (name.encode(), wheel.read(name))
