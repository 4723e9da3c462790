"""The program that makes a base: a file is whole, or nothing of it is left."""

import resource
import subprocess
import sys

import pytest

pytest.importorskip("torch")

from functions.encoding import to_json
from functions.environments.base import EnvTask
from functions.language.base_request import BaseRequest, Training


def make_in(folder, bytes_of_a_file=resource.RLIM_INFINITY):
    """The program puts the base of the relay into the folder, where no file may be larger."""
    request = BaseRequest(target=str(folder / "base"), task=EnvTask(name="text/relay"), training=Training(steps=1))

    def limit():
        # Python ignores the signal that comes with it, so that writing fails.
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_of_a_file, resource.RLIM_INFINITY))

    program = [sys.executable, "-m", "functions.language.base_maker"]
    return subprocess.run(program, input=to_json(request), capture_output=True, preexec_fn=limit, check=False)


@pytest.mark.slow
def test_a_base_that_has_no_room_leaves_nothing_behind(tmp_path):
    done = make_in(tmp_path, 100_000)
    (line,) = done.stderr.decode().splitlines()
    assert done.returncode == 2 and line.startswith(f"{tmp_path / 'base'}: ")
    assert not [*tmp_path.iterdir()]
    assert make_in(tmp_path).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["base"]
