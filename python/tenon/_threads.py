"""How many threads a session gets that asks for none."""

from __future__ import annotations

import math
import os
from pathlib import Path


def cgroup_cpus(root: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")) -> float | None:
    """The CPUs that the process's cgroups allow by their quota; None without one."""
    limits: list[float] = []
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = root / controllers if controllers else root
        folder = base / path.lstrip("/")
        # A group is limited by those that it is in, too. In a container the path may name a group of the host's.
        for group in (folder, *folder.parents):
            if not group.is_relative_to(base):
                break
            limits.extend(_quota(group))
    return min(limits, default=None)


def _quota(group: Path) -> list[float]:
    try:
        quota, period = (group / "cpu.max").read_text().split()[:2]
        return [] if quota == "max" else [int(quota) / int(period)]
    except (OSError, ValueError, ZeroDivisionError):
        pass
    try:
        quota = (group / "cpu.cfs_quota_us").read_text()
        period = (group / "cpu.cfs_period_us").read_text()
        return [int(quota) / int(period)] if int(quota) > 0 else []
    except (OSError, ValueError, ZeroDivisionError):
        return []


def default_threads() -> int:
    """Threads of a session whose options name none: OMP_NUM_THREADS, else the CPUs of the affinity mask within the
    cgroup's quota. 0 leaves it to the library, which counts the affinity mask."""
    if os.environ.get("TENON_THREADS"):
        return 0  # the library's own variable
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    allowed = len(os.sched_getaffinity(0))
    quota = cgroup_cpus()
    if quota is None or quota >= allowed:
        return 0
    return max(1, math.ceil(quota))
