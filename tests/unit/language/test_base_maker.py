"""The program that makes a base: a file is whole, or nothing of it is left."""

import io
import resource
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from functions.encoding import to_json
from functions.environments.base import EnvTask
from functions.language import base_maker
from functions.language.base_request import BaseRequest, Training


def make_in(folder, monkeypatch):
    """The exit code of the program, which puts the base of the relay into the folder."""
    request = BaseRequest(target=str(folder / "base"), task=EnvTask(name="text/relay"), training=Training(steps=1))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(to_json(request))))
    return base_maker.main()


@pytest.mark.slow
def test_a_base_that_has_no_room_leaves_nothing_behind(tmp_path, monkeypatch, capsys):
    # Python ignores the signal that comes with it, so that writing fails.
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        assert make_in(tmp_path, monkeypatch) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not [*tmp_path.iterdir()]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{tmp_path / 'base'}: ")
    assert make_in(tmp_path, monkeypatch) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["base"]
