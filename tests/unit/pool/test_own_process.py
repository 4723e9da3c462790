"""Return whether another process has ended, told from its address alone."""

import subprocess
import sys

import pytest

from marless.infra.local.own_process import address, has_ended

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc")

_ADDRESS = "from marless.infra.local.own_process import address; print(address(), flush=True); input()"


@pytest.fixture
def other():
    """Another process, which ends when it is told so, and its address."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", _ADDRESS], stdin=pipe, stdout=pipe, encoding="utf-8") as process:
        yield process, process.stdout.readline().strip()
        process.kill()


def test_a_process_that_goes_on_has_not_ended(other):
    assert not has_ended(address())
    assert not has_ended(other[1])


def test_ended_process_counts_before_its_parent_asks(other):
    process, where = other
    process.stdin.close()
    process.stdout.read()
    process.send_signal(9)
    while not has_ended(where):
        pass
    process.wait()
    assert has_ended(where)


def test_process_with_reused_number_is_different():
    *where, began = address().split(" ")
    assert has_ended(" ".join([*where, str(int(began) - 1)]))


def test_of_a_process_on_another_machine_nobody_knows(other):
    process, where = other
    boot, *rest = where.split(" ")
    process.kill()
    process.wait()
    assert has_ended(where)
    assert not has_ended(" ".join(["0" + boot[1:] if boot[0] != "0" else "1" + boot[1:], *rest]))
    assert not has_ended("") and not has_ended("nonsense") and not has_ended("a b c d e")
