"""32 runs on one pool have the weights of separate runs, even if processes of the pool die."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import chdir
from pathlib import Path

import pytest
from commands import SMALL
from studies import HARM, bad_neighbour, begin, hashes, setting, settings_of, study, train_alone, workers_of

pytestmark = [pytest.mark.conformance, pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")]

HEAD = 'seeds = "1-4"\npool.workers = 2\nbase.attempts = 10\n'
# Long enough to be killed many times.
LONG = [*SMALL[:-1], "stop.rounds=100"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return weights_alone(tmp_path_factory.mktemp("alone"), SMALL)


@pytest.fixture(scope="module")
def long_alone(tmp_path_factory):
    return weights_alone(tmp_path_factory.mktemp("alone"), LONG)


def weights_alone(folder, base):
    with chdir(folder):
        train_alone(range(1, 5), base)
    found = hashes(folder)
    assert len(found) == 32
    return found


def good(folder):
    return {run: sha256 for run, sha256 in hashes(folder).items() if not run.startswith("bad")}


def ended(process, limit_s=400):
    output, _ = process.communicate(timeout=limit_s)
    assert process.returncode in (0, 1), output
    return process.returncode


def test_quiet(tmp_path, alone):
    study(tmp_path / "all.toml", *settings_of(), head=HEAD)
    assert ended(begin(tmp_path, "all.toml")) == 0
    assert hashes(tmp_path / "studies/all") == alone


def test_the_pool_is_killed_twenty_times(tmp_path, long_alone):
    study(tmp_path / "all.toml", *settings_of(), head=HEAD, base=LONG)
    draw, killed = random.Random(20), 0
    for _ in range(20):
        process = begin(tmp_path, "all.toml")
        while process.poll() is None and not workers_of(process):
            time.sleep(0.05)
        time.sleep(draw.uniform(0.1, 1.5))
        killed += process.poll() is None
        process.kill()
        process.communicate()
    assert killed >= 10  # the others found nothing to do any more
    assert ended(begin(tmp_path, "all.toml")) == 0
    assert hashes(tmp_path / "studies/all") == long_alone


def test_a_slot_is_killed_every_second(tmp_path, long_alone):
    study(tmp_path / "all.toml", *settings_of(), head=HEAD, base=LONG)
    process, killed, draw, found = begin(tmp_path, "all.toml"), 0, random.Random(1), []
    while process.poll() is None:
        time.sleep(1.0)
        found = workers_of(process, found)
        for worker in draw.sample(found, min(1, len(found))):
            os.kill(worker, signal.SIGKILL)
            killed += 1
    assert ended(process) == 0
    assert killed > 5 and hashes(tmp_path / "studies/all") == long_alone


def test_one_of_each_bad_neighbour_is_beside_them(tmp_path, alone):
    head = HEAD.replace("base.attempts = 10", "pool.memory_mb = 1500")
    study(tmp_path / "all.toml", *map(bad_neighbour, HARM), *settings_of(), head=head)
    assert ended(begin(tmp_path, "all.toml")) == 1
    assert good(tmp_path / "studies/all") == alone


def test_run_that_fills_disk_delays_others(tmp_path, alone):
    """On a small disk, all runs stop in order. They continue to the same weights when there is room."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("may not mount a small disk")
    try:
        filler = setting("bad-fill", ["task.name=pettingzoo:bad_neighbours:fill", "actors.num_envs=2"], "eve")
        study(disk / "all.toml", *settings_of(), filler, head=HEAD)
        assert ended(begin(disk, "all.toml")) == 1
        for path in Path(disk).glob("filled-*"):
            path.unlink()
        study(disk / "all.toml", *settings_of(), head=HEAD)
        (disk / "studies/all/study.json").unlink()  # the same study without the one that fills
        (disk / "studies/all/decisions.jsonl").unlink()
        assert ended(begin(disk, "all.toml")) == 0
        assert good(disk / "studies/all") == alone
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
