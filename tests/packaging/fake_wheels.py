"""Fake wheels and projects that pip installs without a network."""

import zipfile

# A build backend inside the project itself: pip needs to fetch nothing to build it.
BACKEND = """
import pathlib, zipfile

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = "nests-1.0-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory, name), "w") as wheel:
        wheel.write("nests.py")
        wheel.writestr("nests-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: nests\\nVersion: 1.0\\n")
        wheel.writestr("nests-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("nests-1.0.dist-info/entry_points.txt", "[marless.environments]\\nnests/egg = nests:make\\n")
        wheel.writestr("nests-1.0.dist-info/RECORD", "")
    return name
"""


def wheel(folder, name, version, files, requires=()):
    about = f"{name.replace('-', '_')}-{version}"
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    with zipfile.ZipFile(folder / f"{about}-py3-none-any.whl", "w") as made:
        for path, text in files.items():
            made.writestr(path, text)
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
        made.writestr(f"{about}.dist-info/METADATA", metadata)
        made.writestr(f"{about}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        made.writestr(f"{about}.dist-info/licenses/LICENSE", "do as you like")
        made.writestr(f"{about}.dist-info/RECORD", "")
    return folder / f"{about}-py3-none-any.whl"


def project(folder):
    """A project with one module that offers the task `nests/egg` by an entry point."""
    folder.mkdir()
    (folder / "nests.py").write_text("def make(task, copies):\n    return 'an egg'\n")
    (folder / "backend.py").write_text(BACKEND)
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    return folder
