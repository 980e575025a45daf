"""Compares the logs of all replicas on their disks, byte by byte."""

from pathlib import Path

from goqueue.storage.frame import decode, measure
from tests.chaos.nodes import ChaosCluster


def compare_replicas(cluster: ChaosCluster, ends: dict[str, int]) -> list[str]:
    """Stop all nodes, and return how replicas differ in what is committed: below these ends of logs."""
    cluster.stop(*cluster.names)
    problems = []
    for log, end in ends.items():
        found = {
            name: frames for name in cluster.names if (frames := _frames(cluster.nodes[name].data / "logs" / log, end))
        }
        if len(found) < min(3, len(cluster.names)) and end:
            problems.append(f"{log} is on {', '.join(found) or 'no node'} only")
        (first, expected), *others = found.items() or [("", {})]
        for name, frames in others:
            for offset in expected.keys() | frames.keys():
                if expected.get(offset) != frames.get(offset) and offset >= max(min(expected), min(frames)):
                    problems.append(
                        f"{log}/{offset} differs: {first} has {_short(expected.get(offset))},"
                        f" {name} {_short(frames.get(offset))}"
                    )
                    break
    return problems


def _frames(directory: Path, end: int) -> dict[int, bytes]:
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
