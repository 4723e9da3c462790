"""Checks the contents of the functions' packages: ``python -m scripts.audit_supply BOM ADVISORIES FOLDER``.

BOM is the bill of materials of the pins (CycloneDX), ADVISORIES pip-audit's answer about them, FOLDER the output of
`sam build`. It fails if a package holds other distributions or versions than the bill, or if a pin has a known
vulnerability. pip-audit's exit code is the same for "none known" and "not asked". If no pin could be looked up, this
program says so.
"""

import json
import sys
from collections.abc import Sequence
from importlib.metadata import distributions, entry_points
from pathlib import Path

import msgspec

from marless.infra.packaging.package_build import ENTRIES

Contents = frozenset[tuple[str, str]]


class Advisory(msgspec.Struct):
    """A known vulnerability of one version."""

    id: str
    fix_versions: list[str] = []


class Audited(msgspec.Struct):
    """A pin, and its known vulnerabilities. `skip_reason` is set if the look-up failed."""

    name: str
    version: str = ""
    vulns: list[Advisory] = []
    skip_reason: str = ""


class Answer(msgspec.Struct):
    """pip-audit's answer."""

    dependencies: list[Audited]


def main() -> int:
    """Audit the bill, the packages and the advisories. Returns the exit code."""
    bill, advisories, folder = map(Path, sys.argv[1:])
    expected = billed(json.loads(bill.read_text(encoding="utf-8"))) | parts()
    faults = [fault for name in ENTRIES for fault in differences(name, expected, held(folder / name.capitalize()))]
    if not faults:
        print(f"every package holds the {len(expected)} distributions of {bill} and of this repository, and no other")
    known, line = vulnerabilities(msgspec.json.decode(advisories.read_bytes(), type=Answer).dependencies)
    print(line)
    for fault in faults + known:
        print(f"audit: {fault}", file=sys.stderr)
    return 1 if faults or known else 0


def billed(bill: dict[str, list[dict[str, str]]]) -> Contents:
    """Names and versions of the bill's components."""
    return frozenset((_normal(part["name"]), part["version"]) for part in bill["components"])


def parts() -> Contents:
    """Names and versions of the installed distributions of this repository that offer tasks to functions."""
    offers = {offer.dist for offer in entry_points(group="marless.task_families") if offer.dist}
    return frozenset((_normal(offer.name), offer.version) for offer in offers if offer.name.startswith("marless-"))


def held(package: Path) -> Contents:
    """Names and versions of the distributions in a package."""
    return frozenset((_normal(one.name), one.version) for one in distributions(path=[str(package)]))


def differences(function: str, expected: Contents, contents: Contents) -> list[str]:
    """Return a line for each distribution that a package lacks or has in addition to the bill."""
    lines = [f"{function} lacks {name} {version} of the bill of materials" for name, version in expected - contents]
    lines += [f"{function} holds {name} {version}, which is not in the bill" for name, version in contents - expected]
    return sorted(lines)


def vulnerabilities(audited: Sequence[Audited]) -> tuple[list[str], str]:
    """One line for each known vulnerability and each pin that alone could not be looked up, and a line for people."""
    skipped = [pin.name for pin in audited if pin.skip_reason]
    if len(skipped) == len(audited):
        return [], "known vulnerabilities: NOT CHECKED, because no advisory can be reached from here"
    faults = [
        f"{pin.name} {pin.version} has {one.id}, mended in {', '.join(one.fix_versions) or 'no version'}"
        for pin in audited
        for one in pin.vulns
    ]
    faults += [f"{name} could not be looked up for known vulnerabilities" for name in skipped]
    return faults, f"known vulnerabilities of the {len(audited)} pins: {len(faults) or 'none'}"


def _normal(name: str) -> str:
    """A distribution's name as package indexes compare it (Python packaging, "Names and normalization")."""
    return name.lower().replace("_", "-").replace(".", "-")


if __name__ == "__main__":
    sys.exit(main())
