"""A directory that vanishes under a real broker that was killed: named at the next start, given up only on purpose."""

import shutil
import subprocess
import sys
from pathlib import Path

from goqueue.limits import LOST_LOG_OFFSETS_SKIPPED
from tests.brokers import ask, create, publish, read
from tests.processes import ROOT, Served


def fsck(data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "goqueue", "fsck", str(data), *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_removed_partition_is_named_everywhere_until_an_operator_replaces_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Served("--data-dir", str(data)) as served:
        create(served.url, "t", partitions=2)
        publish(served.url, "t", *"abc", partition=0)
        served.kill()
    shutil.rmtree(data / "logs/t/0")
    with Served("--data-dir", str(data)) as served:
        assert any(line.startswith("CLOSED      t/0: log t/0 is gone") for line in served.banner)
        ((partition, fault),) = ask(served.url, "GET", "/topics/t").json["faults"].items()
        assert (partition, "t/0 is gone" in fault) == ("0", True)
        assert ask(served.url, "GET", "/health").json["status"] == "degraded"
        (finding,) = [one for one in ask(served.url, "GET", "/doctor").json["findings"] if one["code"] == "log_closed"]
        assert "`goqueue fsck --repair`" in finding["hint"]
        message = {"messages": [{"value": "d", "partition": 0}]}
        assert "t/0 is gone" in ask(served.url, "POST", "/topics/t/messages", message).body.decode()
        assert ask(served.url, "GET", "/topics/t/partitions/0/messages").code == "log_fenced"
        publish(served.url, "t", "d", partition=1)
        served.kill()
    found = fsck(data)
    assert found.returncode == 1
    assert "t/0: the log is gone; it went up to offset 0, or further  [log_missing]" in found.stdout
    repaired = fsck(data, "--repair", "--yes")
    assert f"t/0: make an empty log that goes on at offset {LOST_LOG_OFFSETS_SKIPPED}" in repaired.stderr
    assert repaired.returncode == 0
    with Served("--data-dir", str(data)) as served:
        (published,) = publish(served.url, "t", "d", partition=0)
        assert published["offset"] == LOST_LOG_OFFSETS_SKIPPED
        assert [one["value"] for one in read(served.url, "t", query=f"offset={LOST_LOG_OFFSETS_SKIPPED}")] == ["d"]
        assert ask(served.url, "GET", "/topics/t").json["faults"] == {}
