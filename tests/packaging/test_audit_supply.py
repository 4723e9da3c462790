"""The audit of what packages are made of: contents against the bill of materials, and known vulnerabilities."""

import json

import pytest

from scripts.audit_supply import Advisory, Audited, billed, differences, held, vulnerabilities


def distribution(package, name, version):
    folder = package / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


@pytest.fixture
def package(tmp_path):
    distribution(tmp_path, "aws_lambda_powertools", "3.37.0")
    distribution(tmp_path, "numpy", "2.4.6")
    return tmp_path


def bill(*components):
    return billed({"components": [{"name": name, "version": version} for name, version in components]})


def test_a_package_of_what_the_bill_names_has_no_difference(package):
    assert differences("actor", bill(("aws-lambda-powertools", "3.37.0"), ("numpy", "2.4.6")), held(package)) == []


def test_another_version_is_missing_and_unknown(package):
    assert differences("actor", bill(("aws-lambda-powertools", "3.37.0"), ("numpy", "2.4.7")), held(package)) == [
        "actor holds numpy 2.4.6, which is not in the bill",
        "actor lacks numpy 2.4.7 of the bill of materials",
    ]


def test_a_vulnerability_is_named_with_the_version_that_mends_it():
    numpy = Audited(name="numpy", version="1.0", vulns=[Advisory(id="PYSEC-1", fix_versions=["1.1"])])
    faults, line = vulnerabilities([numpy, Audited(name="six", version="1.17.0")])
    assert faults == ["numpy 1.0 has PYSEC-1, mended in 1.1"]
    assert line == "known vulnerabilities of the 2 pins: 1"


def test_pins_that_nobody_could_look_up_are_not_called_clean():
    answer = json.loads('[{"name": "six", "skip_reason": "not found"}, {"name": "numpy", "skip_reason": "not found"}]')
    faults, line = vulnerabilities([Audited(**pin) for pin in answer])
    assert faults == []
    assert "NOT CHECKED" in line


def test_one_pin_that_alone_could_not_be_looked_up_is_a_fault():
    faults, _ = vulnerabilities([Audited(name="six", version="1.17.0"), Audited(name="nump", skip_reason="not found")])
    assert faults == ["nump could not be looked up for known vulnerabilities"]
