"""Memory of a store while much more data passes through, in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness.suite import Bench, Figure, Sample, at_most, measurement

MB = 1e6
PASSAGE = "benchmarks.storage.passage"
ROOT = Path(__file__).resolve().parent.parent.parent

GAINED = Figure("MB", "memory gained", budget=at_most(100), less_is_better=True)


@measurement("pass 10 GB through, one reader at the tail and one behind", GAINED, Figure("MB/s", "in"), repeats=1)
def batches(bench: Bench) -> Iterator[Sample]:
    """Batches of 10,000."""
    while True:
        yield _passed(bench.room(), bench.size(10_000, 1_000), 10_000)


@measurement("pass 40 MB of single messages through", GAINED, Figure("MB/s", "in"), repeats=1)
def singles(bench: Bench) -> Iterator[Sample]:
    """Small appends fill the memory for the tail with what stands around them."""
    while True:
        yield _passed(bench.room(), bench.size(40, 20), 1)


def _passed(path: str, megabytes: int, batch: int) -> Sample:
    command = [sys.executable, "-m", PASSAGE, path, str(megabytes), str(batch)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        try:
            said, _ = child.communicate()
        finally:
            child.kill()
    if child.returncode:
        raise RuntimeError(f"the process that was measured ended with {child.returncode}")
    found = json.loads(said)
    return found["gained"] / MB, found["rate"] / MB
