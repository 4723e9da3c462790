"""The audit of packages: contents against the bill of materials, and known vulnerabilities."""

from importlib.metadata import version

import pytest

from scripts.audit_supply import Advisory, Audited, billed, differences, held, parts, vulnerabilities


@pytest.fixture
def package(tmp_path):
    for name, number in (("aws_lambda_powertools", "3.37.0"), ("numpy", "2.4.6")):
        folder = tmp_path / f"{name}-{number}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
    return tmp_path


def bill(*components):
    return billed({"components": [{"name": name, "version": version} for name, version in components]})


def test_package_with_listed_contents_has_no_difference(package):
    assert differences("actor", bill(("aws-lambda-powertools", "3.37.0"), ("numpy", "2.4.6")), held(package)) == []


def test_packages_hold_this_repository_s_tasks_too():
    assert parts() == {("marless-tasks", version("marless-tasks"))}


def test_another_version_is_missing_and_unknown(package):
    assert differences("actor", bill(("aws-lambda-powertools", "3.37.0"), ("numpy", "2.4.7")), held(package)) == [
        "actor holds numpy 2.4.6, which is not in the bill",
        "actor lacks numpy 2.4.7 of the bill of materials",
    ]


def test_vulnerability_is_named_with_fixed_version():
    numpy = Audited(name="numpy", version="1.0", vulns=[Advisory(id="PYSEC-1", fix_versions=["1.1"])])
    faults, line = vulnerabilities([numpy, Audited(name="six", version="1.17.0")])
    assert faults == ["numpy 1.0 has PYSEC-1, mended in 1.1"]
    assert line == "known vulnerabilities of the 2 pins: 1"


def test_unchecked_pins_are_not_called_clean():
    faults, line = vulnerabilities([Audited(name=name, skip_reason="not found") for name in ("six", "numpy")])
    assert faults == [] and "NOT CHECKED" in line


def test_single_pin_without_look_up_is_fault():
    faults, _ = vulnerabilities([Audited(name="six", version="1.17.0"), Audited(name="nump", skip_reason="not found")])
    assert faults == ["nump could not be looked up for known vulnerabilities"]
