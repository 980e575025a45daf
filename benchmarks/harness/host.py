"""The machine that measures: what it is, and who else keeps it busy."""

import os
import platform
import subprocess
import time
from pathlib import Path

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
BUSY_CORES = 0.25
"""Other processes that take more than this disturb a measurement."""


def facts(directory: str) -> dict[str, str]:
    """Facts of the machine that are needed to compare figures."""
    kind, device = file_system(directory)
    return {
        "cores": str(len(os.sched_getaffinity(0))),
        "cpu": _cpu_model(),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "kernel": f"{platform.system()} {platform.release()}",
        "disk": f"{kind} on {device}",
        "revision": _revision(),
        "load": f"{os.getloadavg()[0]:.2f} at the start",
    }


def file_system(directory: str) -> tuple[str, str]:
    """The type of the file system below a directory, and its device."""
    path = os.path.realpath(directory)
    best = ("", "unknown", "unknown")
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        device, place, kind = line.split()[:3]
        inside = path == place or path.startswith(place.rstrip("/") + "/")
        if inside and len(place) >= len(best[0]):
            best = (place, kind, device)
    return best[1], best[2]


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _revision() -> str:
    """The commit that is checked out, with a plus when files differ from it."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty=+"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()


class Watch:
    """The load by other processes since it was created."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._busy = _busy_seconds()
        self._own = _own_seconds()

    def others_cores(self) -> float:
        elapsed = time.monotonic() - self._start
        others = (_busy_seconds() - self._busy) - (_own_seconds() - self._own)
        return max(0.0, others / elapsed) if elapsed > 0.1 else 0.0


def wait_for_quiet(seconds_max: float) -> float:
    """Wait until others leave the machine alone for a second, or give up; the cores that they use."""
    until = time.monotonic() + seconds_max
    while True:
        watch = Watch()
        time.sleep(1)
        busy = watch.others_cores()
        if busy < BUSY_CORES or time.monotonic() >= until:
            return busy


def _busy_seconds() -> float:
    """Return the CPU time of all processes on all cores, without disk waits."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, soft_irq, *_ = map(int, file.readline().split()[1:])
    return (user + nice + system + irq + soft_irq) / CLOCK_TICKS


def _own_seconds() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system
