"""Count the usable cores of this process: by affinity, and by control groups of Linux (cgroups, version 1 and 2)."""

import os
from math import ceil, inf
from pathlib import Path, PurePosixPath


def cores() -> int:
    """Cores this process may use: the default number of workers. A part of a core's time counts as a core."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, ceil(min(allowed, quota_cores())))


def quota_cores(process: Path = Path("/proc/self")) -> float:
    """Return how many cores' time this process may use. It is `inf` without a limit, and on other systems.

    The least limit of the process's group and of those above it holds. `process` is its folder of proc(5).
    """
    try:
        groups = (process / "cgroup").read_text("utf-8", "replace")
        mounts = (process / "mountinfo").read_text("utf-8", "replace")
    except OSError:
        return inf
    # Lines such as "3:cpu,cpuacct:/docker/5f". Version 2 has no list of controllers.
    fields = [line.split(":", 2) for line in groups.splitlines() if line.count(":") >= 2]
    group_of = {controller: group for _, controllers, group in fields for controller in controllers.split(",")}
    return min((_limit(mount, group_of) for mount in mounts.splitlines()), default=inf)


def _limit(mount: str, group_of: dict[str, str]) -> float:
    """Return the least limit in the groups of this process, if the line of mountinfo has groups of processor time."""
    left, _, right = mount.partition(" - ")
    words, kinds = left.split(), right.split()
    if len(words) < 5 or len(kinds) < 3 or kinds[0] not in ("cgroup", "cgroup2"):
        return inf
    controller = "" if kinds[0] == "cgroup2" else "cpu"
    if controller not in group_of or (controller and controller not in kinds[2].split(",")):
        return inf
    root, place = (word.replace("\\040", " ") for word in words[3:5])
    # A container may see only its own part of the tree, and the name of its group outside of that.
    group = PurePosixPath(group_of[controller])
    below = group.relative_to(root) if group.is_relative_to(root) and ".." not in group.parts else PurePosixPath()
    folders = [Path(place, *below.parts[:depth]) for depth in range(len(below.parts) + 1)]
    return min(map(_cores_of_v1 if controller else _cores_of_v2, folders))


def _cores_of_v2(folder: Path) -> float:
    try:
        quota, period = (folder / "cpu.max").read_text("ascii").split()
        return inf if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return inf


def _cores_of_v1(folder: Path) -> float:
    try:
        quota, period = (int((folder / f"cpu.cfs_{name}_us").read_text("ascii")) for name in ("quota", "period"))
        return quota / period if quota > 0 else inf
    except (OSError, ValueError, ZeroDivisionError):
        return inf
