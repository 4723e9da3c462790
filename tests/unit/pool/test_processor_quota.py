"""The processor time that control groups allow, from files as cgroups(7) and proc(5) describe them."""

from math import inf

import pytest

from marless.infra.local.available_cores import quota_cores

V2 = "30 23 0:26 {root} {place} rw,nosuid - cgroup2 cgroup2 rw\n"
V1 = "33 24 0:29 {root} {place} rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
MEMORY = "34 24 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"


@pytest.fixture
def machine(tmp_path):
    """Makes a process in these groups, with files of them below the mount. Returns the process's folder of /proc."""

    def make(cgroup, mount, files, root="/"):
        place = tmp_path / "mounted here"
        for name, text in files.items():
            file = place / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        process = tmp_path / "self"
        process.mkdir()
        (process / "cgroup").write_text(cgroup)
        shown = str(place).replace(" ", "\\040")
        (process / "mountinfo").write_text(MEMORY + mount.format(root=root, place=shown))
        return process

    return make


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"a/b/cpu.max": "50000 100000\n"}, 0.5),
        ({"a/b/cpu.max": "max 100000\n"}, inf),
        ({"a/b/cpu.max": "max 100000\n", "a/cpu.max": "150000 100000\n"}, 1.5),
        ({"a/b/cpu.max": "300000 100000\n", "a/cpu.max": "200000 100000\n", "other/cpu.max": "1 100000\n"}, 2.0),
        ({"a/b/cpu.max": "nonsense\n"}, inf),
        ({}, inf),
    ],
)
def test_smallest_limit_of_group_and_parents_holds(machine, files, cores):
    assert quota_cores(machine("0::/a/b\n", V2, files)) == cores


@pytest.mark.parametrize(("quota", "cores"), [("25000\n", 0.25), ("-1\n", inf)])
def test_groups_of_version_1_have_a_quota_too(machine, quota, cores):
    files = {"jobs/7/cpu.cfs_quota_us": quota, "jobs/7/cpu.cfs_period_us": "100000\n"}
    assert quota_cores(machine("4:memory:/x\n3:cpu,cpuacct:/jobs/7\n0::/\n", V1, files)) == cores


@pytest.mark.parametrize(("group", "root"), [("/box/5f", "/box/5f"), ("/box/5f", "/elsewhere"), ("/../..", "/")])
def test_container_with_partial_view_has_its_limit(machine, group, root):
    assert quota_cores(machine(f"0::{group}\n", V2, {"cpu.max": "100000 100000\n"}, root)) == 1.0


def test_without_groups_there_is_no_limit(tmp_path):
    assert quota_cores(tmp_path) == inf
