"""Claims: at most one process or thread makes an object, and a process that ends gives its claim up."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from resource_hosts import asking, in_process

from marless.functions.resources.settings import Resource
from marless.infra.local.file_storage import FileStorage

KEPT = {"judge": Resource(serve="judges:at_random", keep=True)}


def test_concurrent_equal_question_is_asked_once(tmp_path, shell):
    shell.export(CALLS=str(tmp_path / "calls"))
    together = Barrier(8)

    def ask(number):
        with in_process(KEPT, tmp_path / "objects") as host:
            together.wait()
            return asking(KEPT, tmp_path / "objects", host, f"run/000000/sample/{number}").call("judge", [b"a"])

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(ask, range(8)))
    assert len({answer for (answer,) in answers}) == 1
    assert len((tmp_path / "calls").read_text().splitlines()) == 1


def test_a_claim_leaves_nothing_behind(tmp_path):
    with FileStorage(tmp_path).claim("answers/a", 1.0):
        assert [path.name for path in (tmp_path / "answers").iterdir()] == [".a.claim"]
    assert not list((tmp_path / "answers").iterdir())


def test_claims_of_different_objects_are_independent(tmp_path):
    storage = FileStorage(tmp_path)
    with storage.claim("answers/a", 1.0), storage.claim("answers/b", 1.0):
        pass


def test_killed_process_gives_up_its_claim(tmp_path):
    source = (
        "import sys\nfrom pathlib import Path\nfrom marless.infra.local.file_storage import FileStorage\n"
        f"with FileStorage(Path({str(tmp_path)!r})).claim('answers/a', 9.0):\n"
        "    print('holds', flush=True)\n    sys.stdin.read()\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", source], env=environment, **pipes) as holder:
        assert holder.stdout.readline() == b"holds\n"
        holder.kill()
        with FileStorage(tmp_path).claim("answers/a", 9.0):
            pass
