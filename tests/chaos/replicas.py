"""Compares the logs of all replicas on their disks, byte by byte."""

from pathlib import Path

from goqueue.storage.frame import decode, measure
from tests.chaos.nodes import ChaosCluster
from tests.chaos.workload import TOPIC


def compare_replicas(cluster: ChaosCluster, partitions: int, ends: dict[int, int]) -> list[str]:
    """Stop all nodes, and return how replicas differ in what is committed."""
    cluster.stop(*cluster.names)
    problems = []
    for partition in range(partitions):
        found = {
            name: logs
            for name in cluster.names
            if (logs := _messages(cluster.nodes[name].data / "logs" / TOPIC / str(partition), ends[partition]))
        }
        if len(found) < min(3, len(cluster.names)):
            problems.append(f"partition {partition} is on {', '.join(found) or 'no node'} only")
        (first, expected), *others = found.items() or [("", {})]
        for name, messages in others:
            for offset in expected.keys() | messages.keys():
                if expected.get(offset) != messages.get(offset) and offset >= max(min(expected), min(messages)):
                    problems.append(
                        f"{TOPIC}/{partition}/{offset} differs: {first} has {_short(expected.get(offset))},"
                        f" {name} {_short(messages.get(offset))}"
                    )
                    break
    return problems


def _messages(directory: Path, end: int) -> dict[int, bytes]:
    """Return the frames of a log below an offset, by offset."""
    frames: dict[int, bytes] = {}
    for path in sorted(directory.glob("*.log")) if directory.is_dir() else ():
        content, position = path.read_bytes(), 0
        while position < len(content):
            length = measure(content, position)
            frame = content[position : position + length]
            offset = decode(frame).offset
            if offset < end:
                frames[offset] = frame
            position += length
    return frames


def _short(frame: bytes | None) -> str:
    return "nothing" if frame is None else f"{len(frame)} bytes, {decode(frame).value[:40]!r}"
