"""The template as it ships with the program, and as a deployment hands it over."""

import re
from collections.abc import Mapping
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_RESOURCE = re.compile(r"  (\w+):")
_CODE = re.compile(r"(      CodeUri: )\S+")


def text() -> str:
    """The template: beside the packages in a source tree, inside this one where the program was installed."""
    places = (_PACKAGE / "template.yaml", _PACKAGE.parent / "template.yaml")
    return next(place for place in places if place.is_file()).read_text(encoding="utf-8")


def located(template: str, code: Mapping[str, str]) -> str:
    """The template with the addresses of the functions' packages, `code` by logical id in lower case.

    Raises `KeyError` for a function without one. Lines are replaced as `sam package` would: a YAML library is not among
    what this program needs to be installed with.
    """
    lines, resource = [], ""
    for line in template.splitlines():
        if found := _RESOURCE.match(line):
            resource = found[1].lower()
        if found := _CODE.fullmatch(line):
            line = found[1] + code[resource]
        lines.append(line)
    return "\n".join(lines) + "\n"
