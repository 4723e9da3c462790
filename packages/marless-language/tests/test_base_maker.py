"""The program that makes a base: a file is whole, or nothing of it is left."""

import resource
import subprocess
import sys

import pytest

pytest.importorskip("torch")

from model_files import write_folder

from marless.functions.encoding import to_json
from marless.functions.environments.base import EnvTask
from marless_language.base_request import BaseRequest, Training

TASK = EnvTask(name="text/relay")


def make_in(folder, bytes_of_a_file=resource.RLIM_INFINITY, source=""):
    """The program puts the base of the relay, or of the source, into the folder, where no file may be larger."""
    task = None if source else TASK
    request = BaseRequest(target=str(folder / "base"), source=str(source), task=task, training=Training(steps=1))

    def limit():
        # Python ignores the signal that comes with it, so that writing fails.
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_of_a_file, resource.RLIM_INFINITY))

    program = [sys.executable, "-m", "marless_language.base_maker"]
    return subprocess.run(program, input=to_json(request), capture_output=True, preexec_fn=limit, check=False)


@pytest.mark.slow
def test_base_without_room_leaves_nothing(tmp_path):
    done = make_in(tmp_path, 100_000)
    (line,) = done.stderr.decode().splitlines()
    assert done.returncode == 2 and line.startswith(f"{tmp_path / 'base'}: ")
    assert not [*tmp_path.iterdir()]
    assert make_in(tmp_path).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["base"]


def test_unreadable_model_file_is_named_without_base(tmp_path):
    folder = write_folder(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to(tmp_path / "nowhere")
    done = make_in(tmp_path, source=folder)
    (line,) = done.stderr.decode().splitlines()
    assert done.returncode == 2 and line.startswith(f"{folder}: No such file or directory")
    assert str(folder / "model.safetensors") in line and str(tmp_path / "base") not in line
