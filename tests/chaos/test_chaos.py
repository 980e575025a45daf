"""Clusters of real processes among faults, for a short time: `make chaos` goes on for as long as one likes."""

from pathlib import Path

import pytest

from tests.chaos.run import ChaosRun

SEED = "7"
SECONDS, CALM_SECONDS = 0.8, 0.2
GAP_SECONDS_MAX = 30.0
"""Far above what it takes: the machine may be busy."""


@pytest.mark.slow
def test_cluster_loses_nothing_that_it_acknowledged_among_faults(tmp_path: Path) -> None:
    workloads = ("log", "delays", "schemas", "register")
    with ChaosRun(tmp_path, SEED, partitions=2, has_devices=True, workloads=workloads) as run:
        for nemesis in ("kill", "isolate", "power", "refuse"):
            fault = run.harm(nemesis, SECONDS, CALM_SECONDS)
            assert fault.without_controller < GAP_SECONDS_MAX, str(fault)

        verdict = run.judge()

    assert verdict.ok, str(verdict)
    assert run.watch.terms
    log, delays, *_ = run.workloads
    assert log.answers["stored"]
    assert delays.answers["200"]
