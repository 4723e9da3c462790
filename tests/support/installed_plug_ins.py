"""Plug-ins of `tests/plug_ins` as `pip install --editable` installs them."""

import tomllib
from pathlib import Path

PLUG_INS = Path(__file__).parents[1] / "plug_ins"


def install(site, shell, name, **entry_points):
    """Puts the package on the path, and its entry points, or `entry_points` of its group, into a .dist-info."""
    write_metadata(site, name, entry_points)
    shell.import_from(site)
    shell.import_from(PLUG_INS / name)


def write_metadata(site, name, entry_points=()):
    """Writes the package's .dist-info with its entry points, or with others of its only group."""
    project = tomllib.loads((PLUG_INS / name / "pyproject.toml").read_text())["project"]
    info = site / f"{name}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = []
    for group, offers in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in (entry_points or offers).items())]
    (info / "entry_points.txt").write_text("\n".join([*lines, ""]))
