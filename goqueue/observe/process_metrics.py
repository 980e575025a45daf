"""Metrics of the process: memory, CPU time and open files."""

import errno
import os
import resource
from collections.abc import Iterator

from prometheus_client import ProcessCollector
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

_DESCRIPTORS = "/proc/self/fd"


def open_files() -> int | None:
    """Return how many files and connections are open; None if the system does not say."""
    try:
        return len(os.listdir(_DESCRIPTORS)) - 1  # one is the listing's own
    except OSError as error:
        return open_files_max() if error.errno == errno.EMFILE else None


def open_files_max() -> int | None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if most == resource.RLIM_INFINITY else most


class ProcessMetrics(ProcessCollector):
    """Metrics of the process. Files are counted even when none is left to list them."""

    def __init__(self) -> None:
        super().__init__(registry=None)

    def collect(self) -> Iterator[Metric]:
        found = list(super().collect())
        yield from found
        used, most = open_files(), open_files_max()
        if any(one.name == "process_open_fds" for one in found) or used is None or most is None:
            return
        yield GaugeMetricFamily("process_open_fds", "Number of open file descriptors.", used)
        yield GaugeMetricFamily("process_max_fds", "Maximum number of open file descriptors.", most)


PROCESS_METRICS = ProcessMetrics()
"""Made once: it reads the start time of the machine, which takes a file."""
