"""Where the times of a benchmark lie, as bars for people."""

from bisect import bisect_right
from collections.abc import Iterator

from goqueue.quantities import format_count, format_duration
from goqueue_cli.bench.latencies import Latencies

_STEPS = (10, 15, 20, 30, 50, 70)  # nearly evenly apart where distances are ratios
_EDGES = [step * 10**power for power in range(2, 12) for step in _STEPS]  # from a microsecond on
_WIDTH = 50


def bars(latencies: Latencies, width: int | None = None, *, block: str = "█") -> Iterator[str]:
    """A line for each range of times between the least and the greatest."""
    counts = [0] * (len(_EDGES) + 1)
    for bucket in latencies.buckets():
        counts[bisect_right(_EDGES, bucket.first)] += bucket.times
    held = [place for place, count in enumerate(counts) if count]
    if not held:
        return
    most = max(counts)
    room = max(10, min(_WIDTH, (width or 100) - 45))
    for place in range(held[0], held[-1] + 1):
        count = counts[place]
        length = -(-count * room // most)  # whatever is there at all is seen
        share = f"{count / latencies.count:.1%}"
        yield f"{_label(place):>18}  {share:>6}  {format_count(count):>11}  {block * length}".rstrip()


def _label(place: int) -> str:
    if place == 0:
        return f"below {_shown(0)}"
    if place == len(_EDGES):
        return f"{_shown(place - 1)} or more"
    return f"{_shown(place - 1)} to {_shown(place)}"


def _shown(place: int) -> str:
    return format_duration(_EDGES[place] / 1e9)
