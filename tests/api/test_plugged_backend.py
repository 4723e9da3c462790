"""A back-end of another package, used as a user would."""

from pathlib import Path

import pytest

import marless
from coordinator.cli.app import main

PLUG_IN = Path(__file__).parents[1] / "plug_ins" / "my_backend"


@pytest.fixture
def installed(home, monkeypatch):
    """What `pip install --editable` leaves: the package on the path, and its entry points in a .dist-info."""
    info = home / "site" / "my_backend-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-backend\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[marless.backends]\nlogged = my_backend:BACKEND\n")
    monkeypatch.syspath_prepend(home / "site")
    monkeypatch.syspath_prepend(PLUG_IN)


def test_a_run_trains_there_and_is_resumed_and_looked_at(installed, small, capsys):
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
