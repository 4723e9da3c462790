"""A user's back-end from another package."""

import pytest
from installed_plug_ins import install

import marless
from marless.cli.app import main


@pytest.fixture
def installed(home, shell):
    install(home / "site", shell, "my_backend")


def test_run_on_plugged_backend_trains_resumes_and_reads(installed, small, capsys):
    run = marless.train(small, backend="logged", quiet=True)
    lines = (run.path / "invocations.log").read_text().splitlines()
    assert lines[0].startswith("actor ") and any(line.startswith("learner ") for line in lines)
    assert run.summary.weights_sha256 == marless.train(small, quiet=True).summary.weights_sha256
    assert marless.resume(run, stop={"rounds": 3}, quiet=True).summary.rounds == 3
    assert main(["status", run.name]) == 0
    assert main(["doctor"]) == 0
    assert "logged" in capsys.readouterr().out


def test_the_commands_offer_it(installed, capsys):
    assert main(["train", "--help"]) == 0
    assert "logged" in capsys.readouterr().out


def test_without_it_the_back_end_is_unknown(small):
    with pytest.raises(marless.UserError, match="there is no back-end logged"):
        marless.train(small, backend="logged")
