"""Numbers of the process, also when it may open no more files."""

import subprocess
import sys

FULL = """
import os, resource
from goqueue import __version__
from goqueue.observe.metrics import Metrics
from goqueue.observe.process_metrics import open_files

metrics = Metrics(__version__)
metrics.scrape().render()
usual = open_files()
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
taken = []
try:
    while True:
        taken.append(os.dup(0))
except OSError:
    pass
text = metrics.scrape().render()[0].decode()
print(usual < 64, open_files(), *(line for line in text.splitlines() if line.startswith("process_") and "fds" in line))
"""


def test_all_files_are_reported_open_when_none_is_left() -> None:
    ran = subprocess.run([sys.executable, "-c", FULL], capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout.strip() == "True 64 process_open_fds 64.0 process_max_fds 64.0", ran.stderr
