"""How far a streaming query has read, as its checkpoint has it: `{"orders": {"0": 23}}`, the offsets that come next.

Spark keeps the end of each micro-batch and nothing of its beginning. After a crash it asks anew where a query begins,
which for `latest` is another place by then. So the end of a batch also has, under a name that no topic can have,
where those partitions begin that the batch before did not know. It is how the first batch comes out the same again.
"""

from collections.abc import Mapping
from typing import Any

from goqueue.spark.points import Place

Positions = dict[Place, int]

_BEGUN = "@from"


def to_json(positions: Mapping[Place, int], begun: Mapping[Place, int] | None = None) -> dict[str, Any]:
    """Always in the same order: Spark compares text."""
    found = _by_topic(positions)
    return {**found, _BEGUN: _by_topic(begun)} if begun else found


def from_json(offset: Mapping[str, Any]) -> Positions:
    return _flat({topic: numbers for topic, numbers in offset.items() if topic != _BEGUN})


def begun(offset: Mapping[str, Any]) -> Positions:
    """Where partitions begin that were new in the batch that ends there."""
    return _flat(offset.get(_BEGUN, {}))


def _by_topic(positions: Mapping[Place, int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for topic, number in sorted(positions):
        found.setdefault(topic, {})[str(number)] = positions[topic, number]
    return found


def _flat(offset: Mapping[str, Any]) -> Positions:
    return {(topic, int(number)): one for topic, numbers in offset.items() for number, one in numbers.items()}
